//! nginx, haproxy, Python's servers, asked by curl, ab and wrk.

use rustix::process::Signal;

use crate::scene::{End, Program, asks, serves};

/// Four workers of another user, which are replaced while they are asked.
const NGINX: Program = Program {
    needs: &["nginx", "curl", "ab", "wrk", "openssl"],
    prepare: r#"
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem \
            -days 2 -subj /CN=test -addext subjectAltName=IP:$SERVER 2>/dev/null
        echo small >small
        cat >nginx.conf <<END
        user www-data; worker_processes 4; daemon off; pid nginx.pid; error_log error.log;
        events { worker_connections 9000; }
        http {
            access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; root $PWD;
            server { listen 8080 backlog=4096; listen [::]:8080 backlog=4096; }
            server { listen 8443 ssl http2; ssl_certificate cert.pem; ssl_certificate_key key.pem; }
        }
END"#,
    serve: "ulimit -n $(ulimit -Hn); exec nginx -p $PWD -c nginx.conf -e error.log",
    port: 8443,
    ask: r#"
        ulimit -n $(ulimit -Hn)
        get() { curl -sS --cacert cert.pem "$@"; }
        get http://$SERVER:8080/content | cmp - content
        get https://$SERVER:8443/content | cmp - content
        get "http://[$SERVER6]:8080/content" | cmp - content
        for i in 1 2 3 4 5 6 7 8; do url="$url https://$SERVER:8443/small"; done
        get --http2 -w '%{http_version} ' $url -o /dev/null | tail -n 1
        plain=http://$SERVER:8080/small
        ab -q -k -c $((100 * TIMES)) -n $((1000 * TIMES)) $plain | grep 'Failed requests'
        wrk -t 2 -c 50 -d 1 $plain >wrk.log
        ! grep -E 'Socket errors|Non-2xx' wrk.log
        ab -q -c 20 -n $((600 * TIMES)) $plain >ab.log &
        sleep 0.1
        kill -HUP $(cat nginx.pid)
        wait $!
        grep 'Failed requests' ab.log
        get $plain"#,
    says: "2 Failed requests:        0\nFailed requests:        0\nsmall\n",
    end: End { signal: Signal::QUIT, code: 0 },
};

#[test]
fn nginx_serves() {
    serves("web::nginx_serves", &NGINX);
}

#[test]
fn nginx_is_asked() {
    asks("web::nginx_is_asked", &NGINX);
}

/// A thousand connections that stay open, or as many times as much, each asked twice.
const MANY: Program = Program {
    needs: &["nginx", "openssl", "/usr/bin/python3"],
    ask: r#"
        ulimit -n $(ulimit -Hn)
        /usr/bin/python3 $PROGRAMS/many.py $SERVER 8080 /small small $((1000 * TIMES)) 2 | uniq -c | \
            sed "s/ $((1000 * TIMES))$/ all/; s/^ *//""#,
    says: "2 all\n",
    ..NGINX
};

#[test]
fn nginx_keeps_many_connections() {
    serves("web::nginx_keeps_many_connections", &MANY);
}

/// In between, with listeners that an old process hands to a new one.
const HAPROXY: Program = Program {
    needs: &["haproxy", "curl", "ab", "pgrep", "/usr/bin/python3"],
    prepare: r#"
        cat >haproxy.cfg <<END
        global
            stats socket $PWD/haproxy.sock level admin expose-fd listeners
        defaults
            mode http
            timeout connect 5s
            timeout client 5s
            timeout server 5s
        listen web
            bind :8080
            server one $CLIENT:8000
        listen stream
            bind :8081
            mode tcp
            option splice-auto
            server one $CLIENT:8000
END"#,
    serve: "echo $$ >haproxy.pid; exec haproxy -W -db -f haproxy.cfg",
    port: 8081,
    ask: r#"
        /usr/bin/python3 -m http.server 8000 >behind.log 2>&1 &
        behind=$!
        until curl -sS -o /dev/null http://$SERVER:8081/ 2>/dev/null; do sleep 0.05; done
        curl -sS http://$SERVER:8080/content | cmp - content
        curl -sS http://$SERVER:8081/content | cmp - content
        ab -q -c 4 -n $((100 * TIMES)) http://$SERVER:8080/haproxy.cfg | grep Failed
        worker() { pgrep -P $(cat haproxy.pid); }
        old=$(worker)
        kill -USR2 $(cat haproxy.pid)
        until new=$(worker) && test "$new" -ne $old 2>/dev/null; do sleep 0.05; done
        ab -q -c 4 -n $((100 * TIMES)) http://$SERVER:8081/haproxy.cfg | grep Failed
        kill $behind"#,
    says: "Failed requests:        0\nFailed requests:        0\n",
    end: End { signal: Signal::TERM, code: 0 },
};

#[test]
fn haproxy_serves() {
    serves("web::haproxy_serves", &HAPROXY);
}

#[test]
fn haproxy_is_asked() {
    asks("web::haproxy_is_asked", &HAPROXY);
}

const PYTHON: Program = Program {
    needs: &["/usr/bin/python3", "curl"],
    prepare: "",
    serve: "exec /usr/bin/python3 -m http.server 8000",
    port: 8000,
    ask: r#"
        curl -sS http://$SERVER:8000/content | cmp - content
        curl -sS -o /dev/null -w '%{http_code}\n' http://$SERVER:8000/none
        /usr/bin/python3 -c "
import urllib.request
print(urllib.request.urlopen('http://$SERVER:8000/content').read() == open('content', 'rb').read())""#,
    says: "404\nTrue\n",
    end: End { signal: Signal::INT, code: 0 },
};

#[test]
fn http_server_serves() {
    serves("web::http_server_serves", &PYTHON);
}

#[test]
fn http_server_is_asked() {
    asks("web::http_server_is_asked", &PYTHON);
}

/// Streams, TLS and datagrams by one event loop.
const ASYNCIO: Program = Program {
    needs: &["/usr/bin/python3", "openssl"],
    prepare: r#"
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem \
            -days 2 -subj /CN=test -addext subjectAltName=IP:$SERVER 2>/dev/null"#,
    serve: "exec /usr/bin/python3 $PROGRAMS/echo.py serve",
    port: 7001,
    ask: "/usr/bin/python3 $PROGRAMS/echo.py ask",
    says: "streams 100\ntls 10\ndatagrams 50\n",
    end: End { signal: Signal::TERM, code: 0 },
};

#[test]
fn asyncio_serves() {
    serves("web::asyncio_serves", &ASYNCIO);
}

#[test]
fn asyncio_is_asked() {
    asks("web::asyncio_is_asked", &ASYNCIO);
}
