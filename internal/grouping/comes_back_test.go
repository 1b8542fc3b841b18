package grouping

import (
	"testing"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestObjectThatComesBack checks an object that an informer reports as deleted and then has again
// with the same UID. This happens after a list from an API server with an old cache, or after a
// restore of etcd. The pods of the object must not be blocked.
func TestObjectThatComesBack(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{"unchanged": "parallelism: 2", "changed": "parallelism: 3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true, "Job")
			w.object("Job/train", "", "", "parallelism: 2")
			pod := w.pod("p", "Job/train")
			if v := w.Hold(pod); v != (gang.Verdict{}) {
				t.Fatalf("it is held at first: %s", v.Message)
			}
			w.Delete("Job/train")
			w.object("Job/train", "", "", spec)
			if v := w.Hold(pod); v != (gang.Verdict{}) {
				t.Errorf("it is held although its object exists: %s", v.Message)
			}
		})
	}
}
