from store.structures.checkpoint.files import confirmed_offset as confirmed_offset
from store.structures.findings import MISSING_SEGMENT as MISSING_SEGMENT
from store.structures.findings import NEWER as NEWER
from store.structures.findings import Finding as Finding
from store.structures.findings import by_place as by_place
from store.verbs.check.check import Progress as Progress
from store.verbs.check.check import check_files as check_files
