;; Makes empty files; fails when it may make no more, and after 64 is content.
(component $C
  (import "wasi:filesystem/types@0.2.0" (instance $types
    (export "descriptor" (type $d (sub resource)))
    (type $e0 (enum "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist"
      "file-too-large" "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io" "is-directory" "loop"
      "too-many-links" "message-size" "name-too-long" "no-device" "no-entry" "no-lock" "insufficient-memory"
      "insufficient-space" "not-directory" "not-empty" "not-recoverable" "unsupported" "no-tty" "no-such-device"
      "overflow" "not-permitted" "pipe" "read-only" "invalid-seek" "text-file-busy" "cross-device"))
    (export "error-code" (type $e (eq $e0)))
    (type $p0 (flags "symlink-follow")) (export "path-flags" (type $pf (eq $p0)))
    (type $o0 (flags "create" "directory" "exclusive" "truncate")) (export "open-flags" (type $of (eq $o0)))
    (type $f0 (flags "read" "write" "file-integrity-sync" "data-integrity-sync" "requested-write-sync"
      "mutate-directory")) (export "descriptor-flags" (type $df (eq $f0)))
    (export "[method]descriptor.open-at" (func (param "self" (borrow $d)) (param "path-flags" $pf)
      (param "path" string) (param "open-flags" $of) (param "flags" $df) (result (result (own $d) (error $e)))))
    (export "[method]descriptor.write" (func (param "self" (borrow $d)) (param "buffer" (list u8))
      (param "offset" u64) (result (result u64 (error $e)))))))
  (alias export $types "descriptor" (type $desc))
  (import "wasi:filesystem/preopens@0.2.0" (instance $pre
    (alias outer $C $desc (type $d0))
    (export "descriptor" (type $d (eq $d0)))
    (export "get-directories" (func (result (list (tuple (own $d) string)))))))
  (core module $L
    (memory (export "m") 1)
    (global $next (mut i32) (i32.const 49152))
    (func (export "r") (param i32 i32 i32 i32) (result i32) (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at)))
  (core instance $l (instantiate $L))
  (alias core export $l "m" (core memory $m))
  (alias core export $l "r" (core func $r))
  (core func $dirs (canon lower (func $pre "get-directories") (memory $m) (realloc $r)))
  (core func $open (canon lower (func $types "[method]descriptor.open-at") (memory $m) (realloc $r)))
  (core func $write (canon lower (func $types "[method]descriptor.write") (memory $m) (realloc $r)))
  (core module $M
    (import "i" "m" (memory 1))
    (import "i" "dirs" (func $dirs (param i32)))
    (import "i" "open" (func $open (param i32 i32 i32 i32 i32 i32 i32)))
    (import "i" "write" (func $write (param i32 i32 i32 i64 i32)))
    (func $root (result i32)
      (call $dirs (i32.const 0))
      (if (i32.eqz (i32.load (i32.const 4))) (then unreachable))
      (i32.load (i32.load (i32.const 0))))
    (func (export "run") (result i32) (local $root i32) (local $count i32)
      (local.set $root (call $root))
      (loop $on
        (i32.store8 (i32.const 1024) (i32.add (i32.const 48) (local.get $count)))
        (i32.store8 (i32.const 1025) (i32.const 120))
        (if (i32.eq (i32.load8_u (i32.const 1024)) (i32.const 92)) (then (i32.store8 (i32.const 1024) (i32.const 46))))
        (call $open (local.get $root) (i32.const 0) (i32.const 1024) (i32.const 2) (i32.const 1) (i32.const 3)
          (i32.const 16))
        (if (i32.load8_u (i32.const 16)) (then (return (i32.const 1))))
        (local.set $count (i32.add (local.get $count) (i32.const 1)))
        (br_if $on (i32.lt_u (local.get $count) (i32.const 64))))
      (i32.const 0)))
  (core instance $i (instantiate $M (with "i" (instance (export "m" (memory $m)) (export "dirs" (func $dirs))
    (export "open" (func $open)) (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $e (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $e)))
