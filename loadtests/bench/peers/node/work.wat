;; Steps of a 64-bit linear congruential generator: JavaScript has no integers of 64 bits. With its
;; BigInt a step takes from one to two hundred nanoseconds, as V8's inlining happens to go.
(module
  (func (export "iterate") (param $ops i64) (result i64)
    (local $state i64)
    (local.set $state (i64.const 1))
    (block $done
      (loop $next
        (br_if $done (i64.eqz (local.get $ops)))
        (local.set $state
          (i64.add
            (i64.mul (local.get $state) (i64.const 6364136223846793005))
            (i64.const 1442695040888963407)))
        (local.set $ops (i64.sub (local.get $ops) (i64.const 1)))
        (br $next)))
    (local.get $state)))
