from store.structures.compaction.build import plan_compaction_mend as plan_compaction_mend
from store.structures.compaction.files import compacted_topics as compacted_topics
from store.structures.timer.build import plan_timer_rebuild as plan_timer_rebuild
from store.structures.timer.message import TimerMessage as TimerMessage
from store.structures.timer.message import TimerState as TimerState
from store.structures.timer.review import TimerReview as TimerReview
from store.structures.timer.review import review_timers as review_timers
from store.structures.timer.timeline_build import plan_message_database as plan_message_database
