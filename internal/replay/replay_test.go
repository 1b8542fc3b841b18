package replay

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// TestPreemptorIn checks that a gang is represented by a member without scheduling gates if there
// is one.
func TestPreemptorIn(t *testing.T) {
	t.Parallel()
	const profile = "reprieve-scheduler"
	for name, c := range map[string]struct {
		// members has one entry for each member: "node" for a bound pod, "gate" for a pod with a
		// scheduling gate, "other" for a pod of another scheduler, or "".
		members []string
		// want is the name of the chosen member. It is empty for none.
		want string
	}{
		"the first":                     {members: []string{"", ""}, want: "g-0"},
		"one that has no node":          {members: []string{"node", ""}, want: "g-1"},
		"one of the profile":            {members: []string{"other", ""}, want: "g-1"},
		"one that is behind no gate":    {members: []string{"node", "gate", ""}, want: "g-2"},
		"one behind a gate, as all are": {members: []string{"node", "gate", "gate"}, want: "g-1"},
		"none":                          {members: []string{"node", "node"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := []inventory.Change{{Resource: inventory.PodGroups, Object: &v1alpha1.PodGroup{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "uid-g"},
			}}}
			for i, has := range c.members {
				pod := &corev1.Pod{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("g-%d", i), Labels: map[string]string{v1alpha1.LabelPodGroup: "g"}},
					Spec:       corev1.PodSpec{SchedulerName: profile},
				}
				pod.UID = types.UID("uid-" + pod.Name)
				switch has {
				case "node":
					pod.Spec.NodeName = "a"
				case "gate":
					pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
				case "other":
					pod.Spec.SchedulerName = "default-scheduler"
				}
				changes = append(changes, inventory.Change{Resource: inventory.Pods, Object: pod})
			}
			objects, err := inventory.New(time.Now()).With(changes...)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := schedulerapp.LoadConfig(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := whatif.New(t.Context(), objects, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			got := ""
			pod, why := preemptorIn(cluster, &decisionlog.Record{Profile: profile, Decision: core.Decision{
				Preemptor: core.Preemptor{Namespace: "ns", Name: "g", UID: "uid-g", Gang: true},
			}})
			if pod != nil {
				got = pod.Name
			}
			if got != c.want || (why == "") != (c.want != "") {
				t.Errorf("It is decided by %q (%s), want %q", got, why, c.want)
			}
		})
	}
}
