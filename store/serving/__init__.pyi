from store.serving.client import StoreClient as StoreClient
from store.serving.metrics import CopyCollector as CopyCollector
from store.serving.metrics import MetricsServer as MetricsServer
from store.serving.metrics import StoreCollector as StoreCollector
from store.serving.place import has_socket as has_socket
from store.serving.server import ControlServer as ControlServer
