from store.reading.filter import KeyExpression as KeyExpression
from store.reading.filter import TagExpression as TagExpression
from store.reading.filter import compile_sql as compile_sql
from store.reading.filter.subscription import SubscriptionFilter as SubscriptionFilter
from store.reading.filter.subscription import compile_subscription as compile_subscription
from store.reading.filter.subscription import load_filters as load_filters
from store.reading.inside import messages_inside as messages_inside
from store.reading.merged import MergedMessages as MergedMessages
