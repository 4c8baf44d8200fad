from store.rebuild.behind import messages_behind as messages_behind
from store.rebuild.local import rebuild_locally as rebuild_locally
from store.rebuild.publish import plan_publish as plan_publish
from store.rebuild.publish import staged_files as staged_files
from store.rebuild.scope import Rebuild as Rebuild
from store.rebuild.scope import RebuildReport as RebuildReport
from store.rebuild.scope import RebuildScope as RebuildScope
