from store.verbs.rebuild.local import rebuild_locally as rebuild_locally
from store.verbs.rebuild.publish import staged_files as staged_files
from store.verbs.rebuild.scope import Rebuild as Rebuild
from store.verbs.rebuild.scope import RebuildReport as RebuildReport
from store.verbs.rebuild.scope import RebuildScope as RebuildScope
