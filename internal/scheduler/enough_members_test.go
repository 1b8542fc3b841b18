package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestSurplusDelaysNoGang checks a gang whose nodes all have terminating pods. Once the first of
// them is gone, enough members have room, so the gang starts. Its surplus waits for the other node.
func TestSurplusDelaysNoGang(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"v-0", "v-1"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(2, "1")...)
			victims := map[string]*corev1.Pod{}
			for i := range 2 {
				v := on(pod(fmt.Sprint("v-", i), "", "1", 0), fmt.Sprint("node-", i))
				r.create(v)
				r.terminate(v.Name, time.Now())
				victims[v.Name] = v
			}
			r.gangOf("g", 1, 10)
			r.create(members("g", 2, "1", 10)...)
			r.cycles()
			r.remove(victims[first])
			r.eventually("one member is placed", func() bool { r.cycles(); return r.bound(2) == 1 })
		})
	}
}
