from store.structures.findings import Finding as Finding
from store.structures.findings import by_place as by_place
from store.verbs.check.check import check_files as check_files
from store.verbs.check.check import finding_kinds as finding_kinds
from store.verbs.check.options import Progress as Progress
