package filters

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// unboundClaim returns an unbound claim of a StorageClass. If volume is set, the claim is for this
// volume.
func unboundClaim(name, class, volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name), Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeName: volume,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

// boundClaim returns a claim that is bound to the given volume.
func boundClaim(name, class, volume string) *corev1.PersistentVolumeClaim {
	claim := unboundClaim(name, class, volume)
	claim.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	claim.Status.Phase = corev1.ClaimBound
	return claim
}

// TestSharedVolume has a volume that is created for the first member's node, so the other members
// must be on this node too. No pod may be evicted for a placement on several nodes.
func TestSharedVolume(t *testing.T) {
	t.Parallel()
	share := func(claim string, pods ...*corev1.Pod) []*corev1.Pod {
		for _, p := range pods {
			claims(p, claim)
		}
		return pods
	}
	full := func(nodes []runtime.Object, sizes ...string) []runtime.Object {
		for i, n := range nodes {
			node, _ := n.(*corev1.Node)
			nodes = append(nodes, on(pod("low-"+node.Name, "", sizes[i], 0), node.Name))
		}
		return nodes
	}
	unequal := func() []runtime.Object {
		return []runtime.Object{node("node-0", "1"), node("node-1", "2"), node("node-2", "1")}
	}
	anywhere := localVolume("pv", "")
	anywhere.Spec.NodeAffinity, anywhere.Spec.AccessModes = nil, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	anywhere.Spec.StorageClassName = "there"
	bound := boundClaim("data", "made", "pv")
	onNodes := []runtime.Object{localVolume("pv-0", "node-0"), localVolume("pv-1", "node-1")}
	local := []*corev1.PersistentVolumeClaim{unboundClaim("data", "local", "")}
	local[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	exclusive := func(claim *corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
		claim = claim.DeepCopy()
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		return []*corev1.PersistentVolumeClaim{claim}
	}
	cases := map[string]struct {
		nodes   []runtime.Object
		claims  []*corev1.PersistentVolumeClaim
		volumes []runtime.Object
		members []*corev1.Pod
		want    core.Outcome
		on      []string
	}{
		"no node has room for both": {
			nodes: full(nodes(2, "1"), "1", "1"), claims: []*corev1.PersistentVolumeClaim{unboundClaim("data", "made", "")},
			members: share("data", members("g", 2, "1", 10)...), want: core.Infeasible,
		},
		"one has room": {
			nodes: unequal(), claims: []*corev1.PersistentVolumeClaim{unboundClaim("data", "made", "")},
			members: share("data", members("g", 2, "1", 10)...), want: core.Fits, on: []string{"node-1", "node-1"},
		},
		"room is made on one": {
			nodes: full(unequal(), "1", "2", "1"), claims: []*corev1.PersistentVolumeClaim{unboundClaim("data", "made", "")},
			members: share("data", members("g", 2, "1", 10)...), want: core.Preempts, on: []string{"node-1", "node-1"},
		},
		"of several classes": {
			nodes: full([]runtime.Object{node("node-0", "2"), node("node-1", "3")}, "2", "3"), claims: []*corev1.PersistentVolumeClaim{unboundClaim("data", "made", "")},
			members: share("data", append(members("w", 1, "1", 10), members("d", 1, "2", 10)...)...), want: core.Preempts, on: []string{"node-1", "node-1"},
		},
		"one for each two": {
			nodes: full(nodes(2, "2"), "2", "2"), claims: []*corev1.PersistentVolumeClaim{unboundClaim("a", "made", ""), unboundClaim("b", "made", "")},
			members: slices.Concat(share("a", members("x", 2, "1", 10)...), share("b", members("y", 2, "1", 10)...)),
			want:    core.Preempts, on: []string{"node-0", "node-0", "node-1", "node-1"},
		},
		"a volume that is there, for any node": {
			nodes: full(nodes(2, "1"), "1", "1"), claims: []*corev1.PersistentVolumeClaim{unboundClaim("data", "there", "")},
			members: share("data", members("g", 2, "1", 10)...), want: core.Preempts, on: []string{"node-0", "node-1"},
		},
		"a volume that is there, on each node another one": {
			nodes: full(nodes(2, "1"), "1", "1"), claims: local, volumes: onNodes,
			members: share("data", members("g", 2, "1", 10)...), want: core.Infeasible,
		},
		"a volume that is there, on a node with room for both": {
			nodes: full(unequal(), "1", "2", "1"), claims: local, volumes: onNodes,
			members: share("data", members("g", 2, "1", 10)...), want: core.Preempts, on: []string{"node-1", "node-1"},
		},
		"a volume for one pod, that is to be made": {
			nodes: full(unequal(), "1", "2", "1"), claims: exclusive(unboundClaim("data", "made", "")),
			members: share("data", members("g", 2, "1", 10)...), want: core.Infeasible,
		},
		"a volume for one pod, that it has": {
			nodes: full(unequal(), "1", "2", "1"), claims: exclusive(bound),
			members: share("data", members("g", 2, "1", 10)...), want: core.Infeasible,
		},
		"a volume for one pod, of several classes": {
			nodes: full(unequal(), "1", "2", "1"), claims: exclusive(bound),
			members: share("data", append(members("w", 1, "1", 10), members("d", 1, "2", 10)...)...), want: core.Infeasible,
		},
		"a volume for the one pod that has it": {
			nodes: full(nodes(2, "1"), "1", "1"), claims: exclusive(bound),
			members: append(share("data", members("w", 1, "1", 10)...), members("d", 1, "1", 10)...), want: core.Preempts, on: []string{"node-0", "node-1"},
		},
		"a volume that it has": {
			nodes: full(nodes(2, "1"), "1", "1"), claims: []*corev1.PersistentVolumeClaim{bound},
			members: share("data", members("g", 2, "1", 10)...), want: core.Preempts, on: []string{"node-0", "node-1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := slices.Concat(c.nodes, []runtime.Object{anywhere.DeepCopy()}, c.volumes)
			for class, provisioner := range map[string]string{"made": driver, "local": storagehelpers.NotSupportedProvisioner, "there": storagehelpers.NotSupportedProvisioner} {
				objects = append(objects, &storagev1.StorageClass{
					ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: provisioner,
					VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
				})
			}
			for _, claim := range c.claims {
				objects = append(objects, claim)
			}
			d := newWorld(t, nil, objects...).decide(c.members...)
			if got := placedOn(d); d.Outcome != c.want || !slices.Equal(got, c.on) {
				t.Errorf("%s on %v: %s; want %s on %v", d.Outcome, got, d.Message, c.want, c.on)
			}
		})
	}
}

// TestUnitsThatCameBackAreChosen has pods that do not affect one class of members, so the search
// restores them. The search must still choose these pods as the cheapest victims for another class.
// There are so many pods that the plain algorithm does not run.
func TestUnitsThatCameBackAreChosen(t *testing.T) {
	t.Parallel()
	const many = 301
	objects := slices.Concat(nodes(many, "8"), volume("head", corev1.ReadWriteMany), volume("low", corev1.ReadWriteMany))
	var cheap []string
	for i := range many {
		for j := range 8 {
			p := on(pod(fmt.Sprintf("low-%d-%d", i, j), "", "1", 10), fmt.Sprintf("node-%d", i))
			if i == 0 {
				p.Spec.Priority = ptr.To[int32](0)
				cheap = append(cheap, p.Name)
				if j == 0 {
					claims(p, "low")
				}
			}
			objects = append(objects, p)
		}
	}
	head := claims(pod("g-head", "g", "0", 100), "head")
	head.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: quantity("1Gi")}
	d := newWorld(t, nil, objects...).decide(head, pod("g-worker", "g", "8", 100))
	if got := victims(d); d.Outcome != core.Preempts || !slices.Equal(got, cheap) {
		t.Errorf("%s taking %v: %s; want those of node-0", d.Outcome, got, d.Message)
	}
}

// TestVolumeOfAPromisedPod checks that the volume of a pod with a reservation is not free for a
// preemptor. If both use the same exclusive claim, no pod may be evicted.
func TestVolumeOfAPromisedPod(t *testing.T) {
	t.Parallel()
	t.Run("of the same name in another namespace", func(t *testing.T) {
		t.Parallel()
		theirs, ours := unboundClaim("data", "local", ""), unboundClaim("data", "local", "")
		theirs.Namespace, theirs.UID = "other", "theirs"
		objects := append(nodes(2, "1"), theirs, ours, localVolume("pv-0", "node-0"), localVolume("pv-1", "node-1"),
			on(pod("low-0", "", "1", 0), "node-0"), on(pod("low-1", "", "1", 1), "node-1"), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			})
		for _, claim := range []*corev1.PersistentVolumeClaim{theirs, ours} {
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		}
		// The promised pod requests no CPU. So only its volume conflicts with the preemptor.
		promised, p := pod("x", "", "0", 9), pod("p", "", "1", 5)
		promised.Namespace, promised.Status.NominatedNodeName = "other", "node-0"
		claims(promised, "data")
		claims(p, "data")
		d, _, err := newWorld(t, nil, objects...).oracleBeside([]*corev1.Pod{promised}, p).Decide()
		if err != nil {
			t.Fatal(err)
		}
		if d.Outcome != core.Preempts || len(d.Victims) != 1 || d.Victims[0].Name != "low-1" {
			t.Errorf("%s: %+v: %s; the volume of node-0 is promised", d.Outcome, d.Victims, d.Message)
		}
	})
	claim := unboundClaim("data", "made", "")
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	objects := append(nodes(2, "1"), claim, on(pod("low-0", "", "1", 0), "node-0"), on(pod("low-1", "", "1", 0), "node-1"), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "made"}, Provisioner: driver, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	for _, of := range []string{"data", "other"} {
		other, p := pod("x", "", "1", 9), pod("p", "", "1", 5)
		claims(other, of)
		claims(p, "data")
		other.Status.NominatedNodeName = "node-0"
		d, _, err := newWorld(t, nil, objects...).oracleBeside([]*corev1.Pod{other}, p).Decide()
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]core.Outcome{"data": core.Infeasible, "other": core.Preempts}[of]; d.Outcome != want {
			t.Errorf("beside one with the claim %s: %s, want %s: %s", of, d.Outcome, want, d.Message)
		}
	}
}
