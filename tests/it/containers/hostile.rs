use serde_json::json;

use super::{engines, host, left, register, register_script, until_there_are};

#[tokio::test]
async fn floods_and_bombs_end_with_their_own_words_and_the_host_is_there_afterwards() {
    for engine in engines() {
        let host = host(engine);
        register(&host, "cat", &["cat"]).await;
        register_script(&host, "flood", "exec yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
            .await;
        register_script(&host, "bomb", "b() { b | b & }; while :; do b; done").await;
        register_script(&host, "whole", "head -c 104857600 /dev/zero").await;
        let before = host.peak_mib();
        for skill in ["flood", "whole"] {
            let ran = host.run(skill, json!({}), json!({ "timeoutMs": 60_000 })).await.body;
            assert_eq!(ran["error"]["code"], "output_too_large", "{engine}: {skill}: {}", ran["error"]);
            assert_eq!(ran["stdoutTruncated"], true);
        }
        assert!(host.peak_mib() < before + 64, "{engine}: {} MiB", host.peak_mib());
        // It runs into the number of its processes, its memory or its deadline; and it is gone then.
        let ran =
            host.run("bomb", json!({}), json!({ "timeoutMs": 4000, "memoryMb": 64, "cpuPercent": 50 })).await.body;
        let code = ran["error"]["code"].as_str().unwrap().to_owned();
        assert!(["timeout", "exit_nonzero", "out_of_memory", "output_too_large"].contains(&&*code), "{engine}: {ran}");
        until_there_are(engine, &host, 0).await;
        let ran = host.run("cat", json!([1]), json!({})).await.body;
        assert_eq!(ran["output"], json!([1]), "{engine}: {ran}");
    }
}

#[tokio::test]
async fn what_looks_like_an_option_or_a_shell_is_only_a_word_to_the_command() {
    for engine in engines() {
        let host = host(engine);
        let words = ["echo", "--privileged", "-v=/:/host", "--", "$(id)", "`id`", ";", "a  b", "", "--user=0"];
        register(&host, "words", &words).await;
        let ran = host.run("words", json!({}), json!({})).await.body;
        assert_eq!(ran["output"], "--privileged -v=/:/host -- $(id) `id` ; a  b  --user=0\n", "{engine}: {ran}");
        assert_eq!(left(engine, &host), [""; 0]);
    }
}
