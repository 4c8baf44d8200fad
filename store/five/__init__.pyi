from store.five.compaction.mend import plan_compaction_mend as plan_compaction_mend
from store.five.timer.rebuild import plan_timer_rebuild as plan_timer_rebuild
from store.five.timer.review import TimerMessage as TimerMessage
from store.five.timer.review import TimerState as TimerState
from store.five.timer.review import review_timers as review_timers
