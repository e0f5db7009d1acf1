;; Computes without an end.
(module
  (memory (export "memory") 1)
  (func (export "_start") (loop $on (br $on))))
