"""The APIs that every node answers by itself: Metadata, ApiVersions, DescribeConfigs, Fetch."""
