package filters

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

func cpus(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: quantity(amount)}
}

// largerPods returns functions that change a pod so that it requests 3 CPUs, although its first
// container requests 1.
func largerPods() map[string]func(*corev1.Pod) {
	container := func(amount string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Name: "init", Image: "i", RestartPolicy: policy, Resources: corev1.ResourceRequirements{Requests: cpus(amount)}}
	}
	return map[string]func(*corev1.Pod){
		"overhead":          func(p *corev1.Pod) { p.Spec.Overhead = cpus("2") },
		"an init container": func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{container("3", nil)} },
		"init containers in turn": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{container("3", nil), container("2", nil)}
		},
		"a container beside": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{container("2", ptr.To(corev1.ContainerRestartPolicyAlways))}
		},
		"overhead and a second init": func(p *corev1.Pod) {
			p.Spec.Overhead = cpus("1")
			p.Spec.InitContainers = []corev1.Container{container("2", nil)}
		},
		"one beside an init": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{container("1", ptr.To(corev1.ContainerRestartPolicyAlways)), container("2", nil)}
		},
		"two containers": func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container("2", nil)) },
		"the pod as a whole": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpus("3")}
		},
	}
}

// TestRequestsAreCountedAsUpstreamDoes checks pods whose request exceeds the sum of their
// containers, as members of a gang and as running pods.
func TestRequestsAreCountedAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	for name, change := range largerPods() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				what, node, running string
				want                core.Outcome
				wantVictims         []string
			}{
				{what: "one CPU too few", node: "5", want: core.Infeasible},
				{what: "just enough", node: "6", want: core.Fits},
				{what: "just enough beside", node: "7", running: "1", want: core.Fits},
				{what: "somebody in the way", node: "7", running: "2", want: core.Preempts, wantVictims: []string{"r"}},
			} {
				objects := []runtime.Object{node("node-0", c.node)}
				if c.running != "" {
					objects = append(objects, on(pod("r", "", c.running, 0), "node-0"))
				}
				all := members("g", 2, "1", 10)
				for _, p := range all {
					change(p)
				}
				if d := newWorld(t, nil, objects...).decide(all...); d.Outcome != c.want || !slices.Equal(victims(d), c.wantVictims) {
					t.Errorf("%s: %s, taking %v: %s; want %s, taking %v", c.what, d.Outcome, victims(d), d.Message, c.want, c.wantVictims)
				}
			}
			// Now the changed pods run. Their full requests must count as used, and as free after
			// their eviction.
			for asks, want := range map[string]int{"1": 0, "4": 1, "5": 2} {
				objects := []runtime.Object{node("node-0", "7")}
				for _, p := range members("r", 2, "1", 0) {
					change(p)
					objects = append(objects, on(p, "node-0"))
				}
				if d := newWorld(t, nil, objects...).decide(pod("p", "", asks, 10)); len(victims(d)) != want || d.Outcome == core.Infeasible {
					t.Errorf("%s CPUs: %s, taking %v: %s; want %d", asks, d.Outcome, victims(d), d.Message, want)
				}
			}
		})
	}
}

const driver = "csi.example.com"

// volume returns a claim and its bound volume. The volume is on the named nodes, or on all nodes if
// there are no names.
func volume(name string, mode corev1.PersistentVolumeAccessMode, nodeNames ...string) []runtime.Object {
	modes := []corev1.PersistentVolumeAccessMode{mode}
	size := corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	if len(nodeNames) > 0 {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodeNames}},
		}}}}
	}
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: pv.Name, StorageClassName: ptr.To(""),
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	return []runtime.Object{pv, pvc}
}

// claims adds the named volume claims to a pod.
func claims(p *corev1.Pod, names ...string) *corev1.Pod {
	for _, name := range names {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return p
}

// attachLimit returns a CSINode with the maximum number of volumes of a node.
func attachLimit(nodeName string, count int32) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: nodeName, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}},
	}
}

// TestVolumesAreAsked checks that the locations, access modes and attach limits of volumes
// determine the nodes and victims of a gang.
func TestVolumesAreAsked(t *testing.T) {
	t.Parallel()
	const many, once = corev1.ReadWriteMany, corev1.ReadWriteOncePod
	cases := map[string]struct {
		objects []runtime.Object
		running []*corev1.Pod
		// claims has the volume claims of each member.
		claims      [][]string
		want        core.Outcome
		wantNodes   []string
		wantVictims []string
	}{
		"a volume that is on one node": {
			objects: slices.Concat(nodes(2, "1"), volume("a", many, "node-1")), claims: [][]string{{"a"}},
			running: []*corev1.Pod{on(pod("r-0", "", "1", 0), "node-0"), on(pod("r-1", "", "1", 5), "node-1")},
			want:    core.Preempts, wantNodes: []string{"node-1"}, wantVictims: []string{"r-1"},
		},
		"a volume for each member, on different nodes": {
			objects: slices.Concat(nodes(3, "8"), volume("a", many, "node-1"), volume("b", many, "node-2")), claims: [][]string{{"a"}, {"b"}},
			want: core.Fits, wantNodes: []string{"node-1", "node-2"},
		},
		"nobody is taken for a volume that is out of reach": {
			objects: slices.Concat(nodes(1, "1"), volume("a", many, "node-9")), claims: [][]string{{"a"}},
			running: []*corev1.Pod{on(pod("r", "", "1", 0), "node-0")}, want: core.Infeasible,
		},
		"nobody is taken for volumes on two nodes": {
			objects: slices.Concat(nodes(2, "1"), volume("a", many, "node-0"), volume("b", many, "node-1")), claims: [][]string{{"a", "b"}},
			running: []*corev1.Pod{on(pod("r-0", "", "1", 0), "node-0"), on(pod("r-1", "", "1", 0), "node-1")}, want: core.Infeasible,
		},
		"a volume for one pod that nobody has": {
			objects: slices.Concat(nodes(1, "8"), volume("a", once)), claims: [][]string{{"a"}}, want: core.Fits, wantNodes: []string{"node-0"},
		},
		"a volume for one pod that another one has": {
			objects: slices.Concat(nodes(1, "8"), volume("a", once)), claims: [][]string{{"a"}},
			running: []*corev1.Pod{on(claims(pod("r", "", "1", 0), "a"), "node-0"), on(pod("s", "", "1", 0), "node-0")},
			want:    core.Preempts, wantNodes: []string{"node-0"}, wantVictims: []string{"r"},
		},
		"a volume for one pod that a more important one has": {
			objects: slices.Concat(nodes(1, "8"), volume("a", once)), claims: [][]string{{"a"}},
			running: []*corev1.Pod{on(claims(pod("r", "", "1", 20), "a"), "node-0"), on(pod("s", "", "1", 0), "node-0")},
			want:    core.Infeasible,
		},
		"as many volumes as the node attaches": {
			objects: slices.Concat(nodes(1, "8"), volume("a", many), volume("b", many), []runtime.Object{attachLimit("node-0", 2)}),
			claims:  [][]string{{"b"}}, running: []*corev1.Pod{on(claims(pod("r", "", "1", 0), "a"), "node-0")},
			want: core.Fits, wantNodes: []string{"node-0"},
		},
		"one volume more": {
			objects: slices.Concat(nodes(1, "8"), volume("a", many), volume("b", many), []runtime.Object{attachLimit("node-0", 1)}),
			claims:  [][]string{{"b"}},
			running: []*corev1.Pod{on(claims(pod("r", "", "1", 0), "a"), "node-0"), on(pod("s", "", "1", 0), "node-0")},
			want:    core.Preempts, wantNodes: []string{"node-0"}, wantVictims: []string{"r"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := members("g", len(c.claims), "1", 10)
			for i := range all {
				claims(all[i], c.claims[i]...)
			}
			d := newWorld(t, nil, with(c.objects, c.running...)...).decide(all...)
			if d.Outcome != c.want || !slices.Equal(victims(d), c.wantVictims) || !slices.Equal(placedOn(d), c.wantNodes) {
				t.Errorf("%s on %v, taking %v: %s; want %s on %v, taking %v",
					d.Outcome, placedOn(d), victims(d), d.Message, c.want, c.wantNodes, c.wantVictims)
			}
		})
	}
}
