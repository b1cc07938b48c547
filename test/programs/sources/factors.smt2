; Two factors of 26003 * 31013, searched for bit by bit.
(declare-const x (_ BitVec 30))
(declare-const y (_ BitVec 30))
(assert (= (bvmul x y) (_ bv806431039 30)))
(assert (bvult (_ bv1 30) x))
(assert (bvult x y))
(assert (bvult y (_ bv32768 30)))
(check-sat)
