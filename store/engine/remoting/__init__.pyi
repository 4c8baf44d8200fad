from store.engine.remoting.cluster import Cluster as Cluster
