from store.structures.commitlog.start import reads_whole_log as reads_whole_log
from store.structures.trap import Trap as Trap
from store.verbs.recover.checkpoint_review import review_checkpoint as review_checkpoint
from store.verbs.recover.confirm import describe_unconfirmed as describe_unconfirmed
from store.verbs.recover.differences import Difference as Difference
from store.verbs.recover.outcome import SimulatedStart as SimulatedStart
