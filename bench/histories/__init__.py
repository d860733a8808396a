"""Histories of members as rows in Parquet files, and the Spark jobs that check and measure them."""
