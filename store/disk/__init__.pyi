from store.disk.filesystem import Descriptor as Descriptor
from store.disk.filesystem import Filesystem as Filesystem
from store.disk.filesystem import os_errors as os_errors
from store.disk.pace import Pace as Pace
from store.disk.portable import lower_priority as lower_priority
from store.disk.segment_folders import find_dledgers as find_dledgers
from store.disk.store_reader import StoredFile as StoredFile
from store.disk.store_reader import StoreReader as StoreReader
