from store.change.quarantine import list_quarantine as list_quarantine
from store.change.quarantine import purge as purge
from store.change.quarantine import undo as undo
