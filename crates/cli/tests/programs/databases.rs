//! Redis, memcached, PostgreSQL.

use rustix::process::Signal;

use crate::scene::{End, Program, asks, serves};

/// The first server ends by a command and the second has what the first's child has saved.
const REDIS: Program = Program {
    needs: &["redis-server", "redis-benchmark"],
    prepare: "",
    serve: r#"
        set -- redis-server --protected-mode no --save '' --enable-debug-command yes
        "$@"
        exec "$@""#,
    port: 6379,
    ask: r#"
        ask() { redis-cli -h $SERVER "$@"; }
        until_ready() { until ask ping 2>&1 | grep -q PONG; do sleep 0.05; done; }
        redis-benchmark -h $SERVER -q -c 20 -n $((1000 * TIMES)) -t set,get,incr,lpush,lrange_100,mset >benchmark
        redis-benchmark -h $SERVER -q -c 20 -n $((10000 * TIMES)) -P 16 -t set,get >>benchmark
        ask -x set content <content
        ask get content | head -c $(stat -c %s content) | cmp - content
        digest=$(ask debug digest)
        ask bgsave
        until ask info persistence | grep -q rdb_bgsave_in_progress:0; do sleep 0.05; done
        ask info persistence | grep -o rdb_last_bgsave_status:ok
        ask shutdown nosave
        until_ready
        test "$digest" = "$(ask debug digest)""#,
    says: "OK\nBackground saving started\nrdb_last_bgsave_status:ok\n",
    end: End { signal: Signal::TERM, code: 0 },
};

#[test]
fn redis_serves() {
    serves("databases::redis_serves", &REDIS);
}

#[test]
fn redis_is_asked() {
    asks("databases::redis_is_asked", &REDIS);
}

/// It gives up its user before it has a socket.
const MEMCACHED: Program = Program {
    needs: &["memcached", "memccapable", "memcslap", "memccp", "memccat"],
    prepare: "head -c 700000 content >item",
    serve: "exec memcached -u nobody -t 4",
    port: 11211,
    ask: r#"
        memccapable -b -h $SERVER -p 11211 >capable || { cat capable; exit 1; }
        tail -n 1 capable
        memccp --servers=$SERVER item
        memccat --servers=$SERVER item | head -c 700000 | cmp - item
        memcslap --servers=$SERVER --concurrency=20 --execute-number=$((50 * TIMES)) --test=get >slap"#,
    says: "All tests passed\n",
    end: End { signal: Signal::TERM, code: 0 },
};

#[test]
fn memcached_serves() {
    serves("databases::memcached_serves", &MEMCACHED);
}

#[test]
fn memcached_is_asked() {
    asks("databases::memcached_is_asked", &MEMCACHED);
}

/// The postmaster accepts, a child of it serves.
const POSTGRES: Program = Program {
    needs: &["pgbench", "psql", "setpriv"],
    prepare: r#"
        install -d -o postgres -g postgres data
        setpriv --reuid postgres --regid postgres --clear-groups \
            $(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/initdb -N -A trust -D data >initdb.log
        echo 'host all all 0.0.0.0/0 trust' >>data/pg_hba.conf"#,
    serve: r#"
        exec setpriv --reuid postgres --regid postgres --clear-groups \
            $(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/postgres \
            -D data -c 'listen_addresses=*' -c unix_socket_directories= -c fsync=off"#,
    port: 5432,
    ask: r#"
        export PGHOST=$SERVER PGUSER=postgres PGDATABASE=postgres
        until psql -Atc 'select 1' >log 2>&1; do sleep 0.05; done
        pgbench -q -i 2>>log
        pgbench -n -c 8 -j 2 -t $((20 * TIMES)) 2>>log | grep 'failed'
        pgbench -n -C -c 4 -t 5 2>>log | grep 'failed'
        psql -Atc 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)'
        psql -Atc "select string_agg(md5(i::text), '') from generate_series(1, 60000) i" | md5sum
        base64 content | psql -c 'create table lines (line text)' -c 'copy lines from stdin' 
        psql -c 'copy lines to stdout' | base64 -d | cmp - content
        psql -Atc 'set statement_timeout = 50' -c 'select pg_sleep(9)' 2>&1 | grep -o canceling"#,
    says: "number of failed transactions: 0 (0.000%)\n\
        number of failed transactions: 0 (0.000%)\n\
        t\n4bfce6c9d8800e6a98a8253694bf91fa  -\nCREATE TABLE\nCOPY 52632\ncanceling\n",
    end: End { signal: Signal::INT, code: 0 },
};

#[test]
fn postgres_serves() {
    serves("databases::postgres_serves", &POSTGRES);
}

#[test]
fn postgres_is_asked() {
    asks("databases::postgres_is_asked", &POSTGRES);
}
