from store.recovery.checkpoint_review import review_checkpoint as review_checkpoint
from store.recovery.confirm import describe_unconfirmed as describe_unconfirmed
from store.recovery.differences import Difference as Difference
from store.recovery.simulate import SimulatedStart as SimulatedStart
from store.recovery.simulate import simulate_start as simulate_start
from store.recovery.start import reads_whole_log as reads_whole_log
from store.recovery.trap import Trap as Trap
