use serde_json::{Value, json};

use super::{engines, host, register, register_script, try_register};

/// Tells what it has as JSON; `!` before a command is what it must not be able to do.
const LOOK: &str = r#"
    s=/proc/self/status
    field() { sed -n "s/^$1:[[:space:]]*//p" $s; }
    cannot() { if sh -c "$2" >/dev/null 2>&1; then echo "\"$1\":true,"; else echo "\"$1\":false,"; fi; }
    group() { cat /sys/fs/cgroup/$1 /sys/fs/cgroup/$2 2>/dev/null | head -n 1; }
    echo '{'
    cannot root 'touch /x'
    cannot bin 'touch /bin/x'
    cannot workspace 'touch /workspace/x'
    cannot shm 'touch /dev/shm/x'
    cannot dev 'touch /dev/x'
    cannot queue 'touch /dev/mqueue/x'
    cannot run 'touch /run/x || touch /var/tmp/x'
    cannot exec 'cp /bin/busybox /tmp/b && /tmp/b true'
    cannot unshare 'unshare -U -r true'
    cannot mounts 'mount -t tmpfs x /tmp'
    cannot connects 'nc -w 1 127.0.0.1 22 </dev/null || nc -w 1 10.0.0.1 80 </dev/null'
    cannot more_tmp 'dd if=/dev/zero of=/tmp/big bs=1M count=65'
    rm -f /tmp/big
    cannot some_tmp 'dd if=/dev/zero of=/tmp/big bs=1M count=4'
    rm -f /tmp/big
    echo "\"user\":\"$(id -u):$(id -g)\",\"caps\":\"$(field CapEff)$(field CapBnd)\","
    echo "\"privileges\":\"$(field NoNewPrivs)\",\"seccomp\":\"$(field Seccomp)\","
    echo "\"interfaces\":\"$(ls /sys/class/net | tr '\n' ' ')\","
    echo "\"memory\":$(group memory/memory.limit_in_bytes memory.max),"
    echo "\"pids\":$(group pids/pids.max pids.max),"
    echo "\"quota\":\"$(group cpu/cpu.cfs_quota_us cpu.max)\","
    echo "\"files\":$(ulimit -n),\"core\":\"$(ulimit -c)\","
    echo "\"listing\":\"$(ls -A /workspace)\",\"pwd\":\"$(pwd)\","
    echo "\"hosts\":\"$(cat /etc/hosts 2>/dev/null | grep -v -e localhost -e ip6- | tr '\n\t' '  ')\"}"
"#;

#[tokio::test]
async fn every_limit_holds_as_seen_from_inside() {
    for engine in engines() {
        let host = host(engine);
        register_script(&host, "look", LOOK).await;
        let limits = json!({ "memoryMb": 128, "cpuPercent": 50 });
        let ran = host.run("look", json!({}), limits).await.body;
        assert_eq!(ran["status"], "success", "{engine}: {ran}");
        let mut seen = ran["output"].clone();
        let quota = seen["quota"].as_str().unwrap().split(' ').next().unwrap().to_owned();
        assert_eq!(quota, "50000", "{engine}: {seen}");
        seen.as_object_mut().unwrap().remove("quota");
        let zeros = "0".repeat(32);
        let wanted = json!({
            "root": false, "bin": false, "workspace": false, "shm": false, "dev": false, "queue": false, "run": false,
            "exec": false, "unshare": false, "mounts": false, "connects": false, "more_tmp": false, "some_tmp": true,
            "user": "1000:1000", "caps": zeros, "privileges": "1", "seccomp": "2", "interfaces": "lo ",
            "memory": 128 << 20, "pids": 128, "files": 1024, "core": "0", "listing": "", "pwd": "/workspace", "hosts": "",
        });
        assert_eq!(seen, wanted, "{engine}");
    }
}

#[tokio::test]
async fn arguments_and_declared_variables_come_through_exactly_and_nothing_else_does() {
    for engine in engines() {
        let host = host(engine);
        register(&host, "cat", &["cat"]).await;
        let args = json!({ "text": "ä \u{1f600} \"' \\ $HOME `id`\n--network=host", "list": [1, 2.5, null] });
        let ran = host.run("cat", args.clone(), json!({})).await.body;
        assert_eq!((&ran["output"], &ran["exitCode"]), (&args, &json!(0)), "{engine}: {ran}");
        let env = json!({ "grants": { "env": { "A": "x y\n--privileged", "B_1": "" } } });
        let script = [
            "sh",
            "-c",
            "printf %s \"$SKILL_ARGS\"; echo; printf '%s|' \"$A\" \"$B_1\"; env | cut -d= -f1 | sort | tr '\\n' ' '",
        ];
        let registered = try_register(&host, "env", &script, env).await;
        assert_eq!(registered.status, 201, "{engine}: {}", registered.body);
        let ran = host.run("env", args.clone(), json!({})).await.body;
        let text = ran["output"].as_str().unwrap_or_else(|| panic!("{engine}: {ran}"));
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(first).unwrap(), args, "{engine}");
        let (values, names) = rest.rsplit_once('|').unwrap();
        assert_eq!(values, "x y\n--privileged|", "{engine}");
        let known =
            ["--privileged", "A", "B_1", "HOME", "HOSTNAME", "PATH", "PWD", "SHLVL", "SKILL_ARGS", "TERM", "container"];
        assert!(names.split_whitespace().all(|name| known.contains(&name)), "{engine}: {names}");
        // Longer than a variable can be, so on stdin only.
        let long = json!({ "text": "x".repeat(300_000) });
        assert_eq!(host.run("cat", long.clone(), json!({})).await.body["output"], long, "{engine}");
    }
}

#[tokio::test]
async fn what_is_printed_is_json_or_text_whole_characters_and_within_its_cap() {
    for engine in engines() {
        let host = host(engine);
        register_script(&host, "pieces", r"printf '\303'; sleep 0.3; printf '\244\377'; echo err >&2").await;
        let ran = host.run("pieces", json!({}), json!({})).await.body;
        assert_eq!((&ran["output"], &ran["stderr"]), (&json!("ä\u{fffd}"), &json!("err\n")), "{engine}: {ran}");
        register_script(&host, "loud", "head -c 100000000 /dev/zero | tr '\\0' x >&2; echo '{\"done\":true}'").await;
        let before = host.peak_mib();
        let ran = host.run("loud", json!({}), json!({ "outputBytes": 1000 })).await.body;
        assert_eq!((&ran["output"]["done"], &ran["stderrTruncated"]), (&json!(true), &json!(true)), "{engine}: {ran}");
        assert_eq!(ran["stderr"].as_str().unwrap().len(), 1000);
        assert!(host.peak_mib() < before + 64, "{engine}: {} MiB", host.peak_mib());
    }
}
