from store.brokerconfig.config_file import ConfigFile as ConfigFile
from store.brokerconfig.config_file import read_config_files as read_config_files
from store.brokerconfig.consumer_filters import ConsumerFilter as ConsumerFilter
from store.brokerconfig.consumer_filters import read_consumer_filters as read_consumer_filters
from store.brokerconfig.review import ConfigFinding as ConfigFinding
from store.brokerconfig.review import review_loading as review_loading
from store.brokerconfig.topics import compacted_topics as compacted_topics
from store.brokerconfig.topics import refused_attributes as refused_attributes
