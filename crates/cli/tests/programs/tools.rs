//! iperf3, ssh and scp, dnsmasq and dig.

use rustix::process::Signal;

use crate::scene::{End, Program, asks, serves};

const IPERF3: Program = Program {
    needs: &["iperf3", "jq"],
    prepare: "",
    serve: "exec iperf3 -s",
    port: 5201,
    ask: r#"
        run() { iperf3 -J -c $SERVER "$@" >report || { cat report; exit 1; }; }
        tcp() { run -n $((32 * TIMES))M "$@"; jq ".end.sum_received.bytes > 0" report; }
        tcp
        tcp -P 8
        tcp -R
        tcp -P 8 -R
        tcp -Z
        run -u -b 50M -n 2M -l 1400
        jq '.end.sum.packets > .end.sum.lost_packets' report"#,
    says: "true\ntrue\ntrue\ntrue\ntrue\ntrue\n",
    end: End { signal: Signal::TERM, code: 1 },
};

#[test]
fn iperf3_serves() {
    serves("tools::iperf3_serves", &IPERF3);
}

#[test]
fn iperf3_is_asked() {
    asks("tools::iperf3_is_asked", &IPERF3);
}

const SSH: Program = Program {
    needs: &["sshd", "ssh", "scp", "ssh-keygen"],
    prepare: r#"
        mkdir -p /run/sshd
        ssh-keygen -q -t ed25519 -N '' -f host
        ssh-keygen -q -t ed25519 -N '' -f user
        cat >sshd_config <<END
        HostKey $PWD/host
        Port 2222
        AuthorizedKeysFile $PWD/user.pub
        PermitRootLogin prohibit-password
        StrictModes no
        UsePAM no
        PidFile none
        Subsystem sftp internal-sftp
END
        cat >ssh_config <<END
        Host *
        Port 2222
        User root
        IdentityFile $PWD/user
        UserKnownHostsFile $PWD/known
        StrictHostKeyChecking accept-new
        LogLevel ERROR
        BatchMode yes
END"#,
    serve: "exec /usr/sbin/sshd -D -e -f $PWD/sshd_config",
    port: 2222,
    ask: r#"
        ssh -F ssh_config $SERVER cat <content | cmp - content
        ssh -F ssh_config $SERVER 'echo $((6 * 7)); exit 3' || echo $?
        scp -q -F ssh_config content $SERVER:$PWD/there
        cmp content there
        scp -q -F ssh_config $SERVER:$PWD/there back
        cmp content back
        ssh -F ssh_config -o ProxyCommand="ssh -F $PWD/ssh_config -W %h:%p $SERVER" $SERVER cat <content | cmp - content"#,
    says: "42\n3\n",
    end: End { signal: Signal::TERM, code: 0 },
};

#[test]
fn sshd_serves() {
    serves("tools::sshd_serves", &SSH);
}

#[test]
fn sshd_is_asked() {
    asks("tools::sshd_is_asked", &SSH);
}

/// The long text comes by TCP, after an answer that was cut.
const DNSMASQ: Program = Program {
    needs: &["dnsmasq", "dig"],
    prepare: "",
    serve: r#"
        text=$(printf '%0200d' 7)
        exec dnsmasq -k -p 5353 -u root -C /dev/null -R -h -x '' --bind-interfaces -a $SERVER \
            --address=/fuse.test/192.0.2.7 --txt-record=long.test,$text,$text,$text,$text,$text,$text,$text,$text"#,
    port: 5353,
    ask: r#"
        ask() { dig +short +tries=1 +time=5 -p 5353 @$SERVER "$@"; }
        ask fuse.test
        ask +tcp fuse.test
        ask +ignore +bufsize=512 long.test TXT
        ask +bufsize=512 long.test TXT | tr -d ' "' | wc -c
        for i in $(seq 50); do echo "$i.fuse.test"; done >names
        ask -f names | sort | uniq -c | tr -s ' '"#,
    says: "192.0.2.7\n192.0.2.7\n1601\n 50 192.0.2.7\n",
    end: End { signal: Signal::TERM, code: 0 },
};

#[test]
fn dnsmasq_serves() {
    serves("tools::dnsmasq_serves", &DNSMASQ);
}

#[test]
fn dnsmasq_is_asked() {
    asks("tools::dnsmasq_is_asked", &DNSMASQ);
}
