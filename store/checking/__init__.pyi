from store.checking.check import Progress as Progress
from store.checking.check import check_files as check_files
from store.checking.findings import by_place as by_place
