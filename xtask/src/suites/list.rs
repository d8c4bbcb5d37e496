//! The suites.

/// Where a suite comes from.
#[derive(Clone, Copy, Debug)]
pub enum From {
    /// It is a program that is installed.
    Nowhere,
    /// A package, which is unpacked and not installed.
    Package(&'static str),
    /// The source of a package, as its authors released it; goes to `source`.
    Source(&'static str),
    /// A repository of git's, at its newest; goes to `source`.
    Repository(&'static str),
}

/// The part of what passes on the kernel that has to pass over an outboard, in hundredths.
pub const WANTED: usize = 95;

/// The test suite of somebody's.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    pub name: &'static str,
    /// Programs that it takes, and their packages.
    pub tools: &'static [(&'static str, &'static str)],
    pub from: From,
    /// What is done once it is there, in its folder.
    pub prepare: &'static str,
    /// Runs it; `EACH` is the runner for Python's.
    pub run: &'static str,
    /// How long that may take.
    pub minutes: u32,
}

pub const ALL: &[Suite] = &[
    Suite {
        name: "python",
        tools: &[("/usr/bin/python3.11", "python3.11")],
        from: From::Package("libpython3.11-testsuite"),
        prepare: "mv usr/lib/python3.11 lib\ncp -rn /usr/lib/python3.11/test/. lib/test/",
        run: "PYTHONPATH=$PWD/lib /usr/bin/python3.11 $EACH test_socket test_selectors test_ssl test_asyncio",
        minutes: 25,
    },
    Suite {
        name: "redis",
        tools: &[("redis-server", "redis-server"), ("redis-cli", "redis-tools"), ("tclsh", "tcl")],
        from: From::Source("redis"),
        prepare: r#"
            for program in server cli benchmark check-aof check-rdb sentinel; do
                ln -s $(command -v redis-$program) source/src/redis-$program
            done"#,
        run: r#"
            cd source
            for unit in protocol keyspace auth quit pubsub info limits introspection querybuf other \
                pause tracking multi scan expire networking wait shutdown aofrw obuf-limits; do
                timeout 150 ./runtest --clients 1 --single unit/$unit 2>&1 | sed -nE "
                    s/\x1b\[[0-9;]*m//g
                    s/^\[ok\]: (.*) \([0-9]+ ms\)$/ok $unit: \1/p
                    s/^\[err\]: (.*) in tests.*/failed $unit: \1/p
                    s/^\[(skip|ignore)\]: (.*)/skipped $unit: \2/p
                    s/^\[(exception|timeout)\]: (.*)/failed $unit: \2/p"
            done"#,
        minutes: 25,
    },
    Suite {
        name: "memcached",
        tools: &[
            ("make", "make"),
            ("cc", "gcc"),
            ("prove", "perl"),
            ("/usr/include/event.h", "libevent-dev"),
        ],
        from: From::Source("memcached"),
        prepare: r#"
            cd source
            ./configure -q --disable-unix-socket --disable-docs >/dev/null
            make -s -j2 memcached memcached-debug timedrun sizes >/dev/null 2>&1"#,
        run: r#"
            cd source
            for file in t/*.t; do
                if said=$(timeout 60 prove $file 2>&1); then
                    case $said in *skipped:*|*NOTESTS*) echo skipped $file;; *) echo ok $file;; esac
                else
                    echo failed $file " $(echo "$said" | grep -m 1 -E '^#' || echo late)"
                fi
            done"#,
        minutes: 20,
    },
    Suite {
        name: "stress-ng",
        tools: &[("stress-ng", "stress-ng")],
        from: From::Nowhere,
        prepare: "",
        run: r#"
            try() {
                name=$1
                shift
                timeout 60 stress-ng --verify -t 4 "$@" >said 2>&1
                case $? in 0) echo ok $name;; 4) echo skipped $name;; *) echo failed $name; cat said;; esac
            }
            for domain in ipv4 ipv6; do
                for options in random send sendmsg sendmmsg; do
                    try sock-$options-$domain --sock 2 --sock-opts $options --sock-domain $domain
                done
                try udp-$domain --udp 2 --udp-domain $domain
                try epoll-$domain --epoll 2 --epoll-domain $domain
            done
            try sock-nodelay --sock 2 --sock-nodelay
            for one in sockmany sockfd sockpair sockabuse poll dup udp-flood sendfile splice; do
                try $one --$one 2
            done"#,
        minutes: 15,
    },
    Suite {
        name: "libevent",
        tools: &[("make", "make"), ("cc", "gcc")],
        from: From::Source("libevent"),
        prepare: r#"
            cd source
            ./configure -q --disable-openssl --disable-samples --disable-shared >/dev/null
            make -s -j2 >/dev/null 2>&1"#,
        run: r#"
            source/test/regress 2>&1 | sed -nE '
                s/^([a-z0-9_]+\/[^:]+): .*OK$/ok \1/p
                s/^([a-z0-9_]+\/[^:]+): .*SKIPPED.*/skipped \1/p
                s/^ *\[([a-z0-9_]+) FAILED\]$/failed \1/p
                s/^([a-z0-9_]+\/[^:]+): .*(FAIL|Lost connection).*/failed \1/p'"#,
        minutes: 10,
    },
    Suite {
        name: "libuv",
        tools: &[("cmake", "cmake"), ("make", "make"), ("cc", "gcc")],
        from: From::Source("libuv1"),
        prepare: r#"
            cd source
            cmake -S . -B build -DCMAKE_BUILD_TYPE=Release >/dev/null
            make -s -C build -j2 uv_run_tests_a >/dev/null 2>&1"#,
        // It refuses to be run by root.
        run: r#"
            cd source
            unshare --user --map-user=1000 build/uv_run_tests_a 2>&1 | sed -nE '
                s/^ok [0-9]+ - ([a-z0-9_]+) # SKIP.*/skipped \1/p; t
                s/^not ok [0-9]+ - ([a-z0-9_]+).*/failed \1/p; t
                s/^ok [0-9]+ - ([a-z0-9_]+).*/ok \1/p'"#,
        minutes: 15,
    },
    Suite {
        name: "nginx",
        tools: &[
            ("nginx", "nginx"),
            ("git", "git"),
            ("prove", "perl"),
            ("/usr/lib/nginx/modules/ngx_mail_module.so", "libnginx-mod-mail"),
            ("/usr/lib/nginx/modules/ngx_stream_module.so", "libnginx-mod-stream"),
            ("/usr/lib/nginx/modules/ngx_http_geoip_module.so", "libnginx-mod-http-geoip"),
            ("/usr/lib/nginx/modules/ngx_stream_geoip_module.so", "libnginx-mod-stream-geoip"),
            ("/usr/lib/nginx/modules/ngx_http_perl_module.so", "libnginx-mod-http-perl"),
            (
                "/usr/lib/nginx/modules/ngx_http_xslt_filter_module.so",
                "libnginx-mod-http-xslt-filter",
            ),
            (
                "/usr/lib/nginx/modules/ngx_http_image_filter_module.so",
                "libnginx-mod-http-image-filter",
            ),
        ],
        from: From::Repository("https://github.com/nginx/nginx-tests"),
        prepare: "",
        run: r#"
            cd source
            export TEST_NGINX_BINARY=$(command -v nginx) TEST_NGINX_MODULES=/usr/lib/nginx/modules
            export TEST_NGINX_GLOBALS="user root;"
            for file in *.t; do
                timeout 60 perl -I lib $file 2>/dev/null | sed -nE "
                    s/^ok ([0-9]+).*# (skip|TODO).*/skipped $file \1/Ip; t
                    s/^not ok ([0-9]+).*# TODO.*/skipped $file \1/p; t
                    s/^not ok ([0-9]+)( - (.*))?/failed $file \1  \3/p; t
                    s/^ok ([0-9]+).*/ok $file \1/p; t
                    s/^1\.\.0 # SKIP.*/skipped $file/Ip"
            done"#,
        minutes: 60,
    },
    Suite {
        name: "curl",
        tools: &[
            ("make", "make"),
            ("cc", "gcc"),
            ("prove", "perl"),
            ("openssl", "openssl"),
            ("/usr/include/openssl/ssl.h", "libssl-dev"),
        ],
        from: From::Source("curl"),
        // Static within itself, so that what is tested is no script of libtool's.
        prepare: r#"
            cd source
            ./configure -q --with-openssl --disable-shared --disable-ldap --without-libpsl --disable-manual >/dev/null
            make -s -j2 >/dev/null 2>&1
            make -s -C tests -j2 >/dev/null 2>&1"#,
        run: r#"
            export USER=root
            cd source/tests
            # Not through a pipe, which a server that it leaves behind would hold open.
            timeout 3500 ./runtests.pl -a -n -am >../../said 2>&1 </dev/null
            sed -nE "
                s/^PASS: ([0-9]+) - .*/ok \1/p
                s/^FAIL: ([0-9]+) - (.*)/failed \1  \2/p
                s/^SKIP: ([0-9]+) - .*/skipped \1/p" ../../said"#,
        minutes: 60,
    },
];
