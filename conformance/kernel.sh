#!/bin/sh
# What `cargo xtask packetdrill --kernel` tells the kernel before each script, so that its defaults are those
# that the scripts expect: Linux's own where they matter, and no caches of earlier runs.
sysctl -q -w net.ipv4.tcp_rmem="4096 131072 6291456" net.ipv4.tcp_wmem="4096 16384 4194304" \
    net.ipv4.tcp_ecn=2 net.ipv4.tcp_timestamps=1 net.ipv4.tcp_sack=1 net.ipv4.tcp_dsack=1 \
    net.ipv4.tcp_fastopen=0 net.ipv4.tcp_no_metrics_save=1 net.ipv4.tcp_syn_linear_timeouts=0 \
    net.ipv4.tcp_slow_start_after_idle=1 net.ipv4.tcp_challenge_ack_limit=1000 \
    net.ipv4.tcp_invalid_ratelimit=0 net.ipv4.tcp_rfc1337=1 || exit 1
sysctl -q -w net.ipv4.tcp_congestion_control=cubic 2>/dev/null ||
    sysctl -q -w net.ipv4.tcp_congestion_control=reno
