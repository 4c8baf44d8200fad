from store.services.delay import DelayedMessage as DelayedMessage
from store.services.delay import DelayLevel as DelayLevel
from store.services.delay import DelayState as DelayState
from store.services.delay import review_delays as review_delays
from store.services.delay_offsets import plan_delay_offsets as plan_delay_offsets
from store.services.transactions import Transaction as Transaction
from store.services.transactions import TransactionState as TransactionState
from store.services.transactions import review_transactions as review_transactions
