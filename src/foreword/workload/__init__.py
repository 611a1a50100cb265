"""The workload side: lengths, groups, order, plan and content. Pure: configs and draws in, arrays out."""
