package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func TestClasses(t *testing.T) {
	t.Parallel()
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	claim := func(name string) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
	}
	ephemeral := volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	label := func(k, v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[k] = v } }
	none := func(*corev1.Pod) {}
	alike := func(int, *corev1.PersistentVolumeClaim) {}
	// selected and spreadBy add a label to a pod. They also add an anti-affinity or a spread
	// constraint that refers to the label.
	selected := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			label(key, value)(p)
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: "0"}},
				}},
			}}
		}
	}
	spreadBy := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			label(key, value)(p)
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{key},
			}}
		}
	}
	onB := func(change func(*corev1.PersistentVolumeClaim)) func(int, *corev1.PersistentVolumeClaim) {
		return func(i int, c *corev1.PersistentVolumeClaim) {
			if i == 1 {
				change(c)
			}
		}
	}
	cases := map[string]struct {
		a, b func(*corev1.Pod)
		// claims changes the volume claims of the two pods, which have the numbers 0 and 1. It is
		// nil if the pods have no claims.
		claims func(int, *corev1.PersistentVolumeClaim)
		same   bool
	}{
		"nothing but the name":          {none, none, nil, true},
		"status and age":                {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() }, nil, true},
		"the index in a Job":            {label("batch.kubernetes.io/job-completion-index", "0"), label("batch.kubernetes.io/job-completion-index", "1"), nil, true},
		"the index in a StatefulSet":    {label("apps.kubernetes.io/pod-index", "0"), label("apps.kubernetes.io/pod-index", "1"), nil, true},
		"one Job of several":            {label("job-name", "a"), label("job-name", "b"), nil, true},
		"an index that is selected by":  {selected("apps.kubernetes.io/pod-index", "0"), selected("apps.kubernetes.io/pod-index", "1"), nil, false},
		"one Job that is spread":        {spreadBy("job-name", "a"), spreadBy("job-name", "b"), nil, false},
		"a label like any other":        {label("role", "leader"), label("role", "worker"), nil, false},
		"environment and command":       {func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"a"} }, none, nil, true},
		"the same map of configuration": {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), none, nil, true},
		"requests":                      {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = quantity("9") }, none, nil, false},
		"host ports":                    {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, none, nil, false},
		"node selector":                 {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, none, nil, false},
		"tolerations":                   {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, none, nil, false},
		"user namespaces":               {func(p *corev1.Pod) { p.Spec.HostUsers = new(bool) }, none, nil, false},
		"rules for restarts": {func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}, none, nil, false},
		"options of mounts": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{BindMountOptions: []string{"noexec"}}}
		}, none, nil, false},
		"mounts":                           {func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/a"}} }, none, nil, true},
		"priority":                         {func(p *corev1.Pod) { *p.Spec.Priority = 7 }, none, nil, false},
		"the same claim":                   {claim("c"), claim("c"), nil, true},
		"claims of their own":              {claim("c-0"), claim("c-1"), nil, false},
		"ephemeral volumes without claims": {ephemeral, ephemeral, nil, false},
		"claims for the same, of ephemeral volumes": {ephemeral, ephemeral, alike, true},
		"claims for the same, of a StatefulSet":     {claim("a-v"), claim("b-v"), alike, true},
		"claims for more": {claim("a-v"), claim("b-v"), onB(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = quantity("2Gi")
		}), false},
		"a claim whose class is in an annotation": {ephemeral, ephemeral, onB(func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, corev1.BetaStorageClassAnnotation, "fast")
		}), false},
		"a claim that has a volume": {ephemeral, ephemeral, onB(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }), false},
		"a claim for which a volume is made on a node": {ephemeral, ephemeral, onB(func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/selected-node", "n")
		}), false},
		"a claim that goes":            {ephemeral, ephemeral, onB(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }), false},
		"a claim of another pod":       {ephemeral, ephemeral, onB(func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = nil }), false},
		"claims for one pod at a time": {claim("a-v"), claim("b-v"), func(_ int, c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = corev1.ReadWriteOncePod }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pod("a", "g", "1", 0), pod("b", "g", "1", 0)
			c.a(a)
			c.b(b)
			claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			for i, p := range []*corev1.Pod{a, b} {
				if c.claims == nil {
					break
				}
				claim := claimFor(p)
				c.claims(i, claim)
				if err := claims.Add(claim); err != nil {
					t.Fatal(err)
				}
			}
			classes, err := ClassesOf([]*corev1.Pod{a, b}, corelisters.NewPersistentVolumeClaimLister(claims), nil)
			if err != nil {
				t.Fatal(err)
			}
			if same := len(classes) == 1; same != c.same {
				t.Errorf("One class: %v, want %v", same, c.same)
			}
		})
	}
}

// claimFor returns the volume claim for the volume v of a pod.
func claimFor(pod *corev1.Pod) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name + "-v",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}},
		},
	}
}

// TestSharedClaims checks that pods that share one claim are not equal to pods with separate
// claims. If pods share a claim, the node of one pod may limit the nodes of the others.
func TestSharedClaims(t *testing.T) {
	t.Parallel()
	claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var pods []*corev1.Pod
	for name, claim := range map[string]string{"a": "own-a", "b": "own-b", "x": "data", "y": "data"} {
		p := pod(name, "g", "1", 0)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
		pods = append(pods, p)
		if err := claims.Add(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: claim}}); err != nil {
			t.Fatal(err)
		}
	}
	classes, err := ClassesOf(pods, corelisters.NewPersistentVolumeClaimLister(claims), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(classes) != 2 || len(classes[0].Pods) != 2 {
		t.Errorf("%d classes, want the pods with one claim and those with one each", len(classes))
	}
}
