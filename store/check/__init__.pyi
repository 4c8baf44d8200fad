from store.check.check import Progress as Progress
from store.check.check import check_files as check_files
from store.check.findings import by_place as by_place
