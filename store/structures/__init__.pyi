from store.structures.compaction.build import plan_compaction_mend as plan_compaction_mend
from store.structures.timer.message import TimerMessage as TimerMessage
from store.structures.timer.message import TimerState as TimerState
from store.structures.timer.review import review_timers as review_timers
from store.structures.timer.timeline_build import plan_message_database as plan_message_database
from store.verbs.rebuild.timer import plan_timer_rebuild as plan_timer_rebuild
