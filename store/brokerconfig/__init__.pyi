from store.brokerconfig.config_file import ConfigFile as ConfigFile
from store.brokerconfig.review import ConfigFinding as ConfigFinding
