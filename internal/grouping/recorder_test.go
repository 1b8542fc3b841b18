package grouping

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// notes records the calls to a Recorder as text.
type notes []string

func (n *notes) Known(resource schema.GroupVersionResource, u *unstructured.Unstructured) {
	gang := u.GetAnnotations()["reprieve.dev/gang"]
	*n = append(*n, resource.Resource+"/"+u.GetName()+" "+gang)
}

func (n *notes) Forgotten(resource schema.GroupVersionResource, _, name string) {
	*n = append(*n, resource.Resource+"/"+name+" forgotten")
}

// TestRecorder checks that the Recorder gets objects in the state that groups use. It must not get
// a change that is deferred. It must not get a deletion while pods of the object are left.
func TestRecorder(t *testing.T) {
	t.Parallel()
	w, told := newWorld(t, false, "Job", "RayJob"), &notes{}
	w.RecordTo(told)
	step := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(*told, want) {
			t.Errorf("%s, it is told %q, want %q", what, *told, want)
		}
		*told = nil
	}
	w.object("Job/train", "", gangOn, "parallelism: 2")
	step("of a Job", "jobs/train true")
	w.object("Job/train", "", gangOn, "parallelism: 2")
	step("of no change")
	w.Set(schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}, clusterOf(t, "RayJob/ray"))
	step("of a kind that leads to another", "rayclusters/ray-1 ")
	pod := w.pod("p", "Job/train")
	w.GroupOf(pod)
	pod.Spec.NodeName = "node-0"
	w.object("Job/train", "", `reprieve.dev/gang: "false"`, "parallelism: 2")
	w.Sweep()
	step("of a change while a pod runs")
	pod.Spec.NodeName = ""
	w.Sweep()
	step("once no pod runs", "jobs/train false")
	w.Delete("Job/train")
	w.Sweep()
	step("when it is deleted with a pod left")
	w.pods = nil
	w.Sweep()
	step("when its pods have gone", "jobs/train forgotten")
}
