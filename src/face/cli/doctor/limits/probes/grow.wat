;; Takes memory until it gets none, and then gives up.
(module
  (memory (export "memory") 1)
  (func (export "_start")
    (loop $on (br_if $on (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    unreachable))
