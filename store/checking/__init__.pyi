from store.checking.check import Progress as Progress
from store.checking.check import check_files as check_files
from store.checking.findings import MISSING_SEGMENT as MISSING_SEGMENT
from store.checking.findings import NEWER as NEWER
from store.checking.findings import Finding as Finding
from store.checking.findings import by_place as by_place
from store.checking.promises import confirmed_offset as confirmed_offset
