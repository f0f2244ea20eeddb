"""The measurements that come with the package: they reach it as its users do."""
