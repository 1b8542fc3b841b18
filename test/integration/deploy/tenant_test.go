package deploy

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// tenantPool is the name of the pool with the tenant's nodes.
const tenantPool = "tenant"

// TestTenant tests the admission policies for a tenant with the built-in role edit. They must
// reject changes that affect how placed work counts, such as its queue, and permit all other
// changes. They must permit all changes by administrators and by the controllers of the cluster.
func TestTenant(t *testing.T) {
	c := startClusterOf(t, render(t, deployPath(t)), map[string]int{tenantPool: 2}, playground.Options{})
	c.startScheduler(t, name+"-0")
	c.create(t, priorityClass(low, lowValue), priorityClass(high, highValue))
	for _, queue := range []string{"red", "blue"} {
		c.create(t, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: queue}})
	}
	tenant := c.tenant(t, metav1.NamespaceDefault)
	c.place(t, tenant)
	t.Run("pods", func(t *testing.T) { testPlacedPods(t, c, tenant) })
	t.Run("deleting groups", func(t *testing.T) { testGroupDeletion(t, c, tenant) })
	t.Run("the size of groups", func(t *testing.T) { testGroupSize(t, c, tenant) })
	t.Run("the size of pods", func(t *testing.T) { testPodSize(t, c, tenant) })
	t.Run("the cluster's controllers", func(t *testing.T) { testControllersPass(t, c, tenant) })
	t.Run("queue owners", func(t *testing.T) { testQueueOwner(t, c) })
	t.Run("a namespace", func(t *testing.T) { testNamespaceGoes(t, c) })
	t.Run("quotas of classes", func(t *testing.T) { testClassQuotas(t, c, tenant) })
}

// tenant creates a ServiceAccount with the role edit in a namespace, and returns a client for it.
func (c *cluster) tenant(t *testing.T, in string) client.Client {
	t.Helper()
	const user = "tenant"
	c.create(t,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: user}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: in, Name: user}},
		})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.playground.WriteKubeconfig(path, c.token(t, in, user)); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	out, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	// Wait until the permissions are effective: a controller aggregates the role edit, and the
	// authorizer receives it through a watch.
	eventually(t, "the rights of the tenant", func(ctx context.Context) string {
		probe := groupOf(gangOfTwo(low))
		probe.Namespace, probe.Name = in, "probe"
		return said(out.Create(ctx, probe, client.DryRunAll))
	})
	return out
}

// place creates the tenant's work: a running pod, a running gang of two, a waiting gang and a
// waiting pod.
func (c *cluster) place(t *testing.T, tenant client.Client) {
	t.Helper()
	inQueue := func(pod *corev1.Pod) { pod.Labels = map[string]string{v1alpha1.LabelQueue: "red"} }
	train, waits := groupOf(gangOfTwo(low)), groupOf(gangOfTwo(low))
	train.Name, waits.Name = "train", "waits"
	for _, o := range []client.Object{
		train, waits,
		newPod("alone", tenantPool, low, inQueue), newPod("alone-waits", tenantPool, low, inQueue, asks("nvidia.com/gpu", "1000")),
		newPod("train-0", tenantPool, low, memberOf("train")), newPod("train-1", tenantPool, low, memberOf("train")),
		newPod("waits-0", tenantPool, low, memberOf("waits")),
	} {
		eventually(t, "create "+o.GetName(), func(ctx context.Context) string { return said(client.IgnoreAlreadyExists(tenant.Create(ctx, o))) })
	}
	c.waitRunning(t, "alone", "train-0", "train-1")
	c.waitGroup(t, "train", func(pg *v1alpha1.PodGroup) string {
		if pg.Status.Scheduled != 2 {
			return fmt.Sprintf("%d members are scheduled", pg.Status.Scheduled)
		}
		return ""
	})
}

// refusedBy returns "" if err is a rejection whose message contains want. If want is "", err must
// be nil. Otherwise refusedBy describes the difference.
func refusedBy(err error, want string) string {
	switch {
	case want == "" && err != nil:
		return fmt.Sprintf("it is refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		return fmt.Sprintf("got %v, want it refused: %s", err, want)
	}
	return ""
}

func testPlacedPods(t *testing.T, c *cluster, tenant client.Client) {
	label := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value) }
	annotation := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value) }
	const sealed = "the annotation reprieve.dev/placed-as is the scheduler's record"
	forged := newPod("forged", tenantPool, low, func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: `{"group":""}`}
	})
	eventually(t, "the answer to a new pod with a seal", func(ctx context.Context) string {
		return refusedBy(tenant.Create(ctx, forged.DeepCopy(), client.DryRunAll), sealed)
	})
	for name, tc := range map[string]struct {
		pod, patch string
		by         client.Client
		want       string
	}{
		"takes the queue off":                   {pod: "alone", patch: label(v1alpha1.LabelQueue, "null"), want: "the label reprieve.dev/queue of a pod on a node cannot change"},
		"names another queue":                   {pod: "alone", patch: label(v1alpha1.LabelQueue, `"blue"`), want: "the label reprieve.dev/queue of"},
		"puts it into a group":                  {pod: "alone", patch: label(v1alpha1.LabelPodGroup, `"train"`), want: "the label reprieve.dev/pod-group of"},
		"takes it out of its group":             {pod: "train-0", patch: label(v1alpha1.LabelPodGroup, "null"), want: "the label reprieve.dev/pod-group of"},
		"calls it a driver":                     {pod: "alone", patch: annotation(v1alpha1.AnnotationLeads, `"9"`), want: "the annotation reprieve.dev/leads of"},
		"names a group of another scheduler":    {pod: "alone", patch: annotation("pod-group-name", `"g"`), want: "the annotation pod-group-name of"},
		"names a queue of another scheduler":    {pod: "alone", patch: label("kai.scheduler/queue", `"blue"`), want: "the label kai.scheduler/queue of"},
		"gives it another role":                 {pod: "alone", patch: label("spark-role", `"driver"`), want: "the label spark-role of"},
		"takes the seal off":                    {pod: "alone", patch: annotation(v1alpha1.AnnotationPlacedAs, "null"), want: sealed},
		"forges a seal":                         {pod: "train-0", patch: annotation(v1alpha1.AnnotationPlacedAs, `"{}"`), want: sealed},
		"forges a seal of what waits":           {pod: "alone-waits", patch: annotation(v1alpha1.AnnotationPlacedAs, `"{}"`), want: sealed},
		"an administrator takes the seal off":   {pod: "alone", patch: annotation(v1alpha1.AnnotationPlacedAs, "null"), by: c.Client},
		"adds a label of its own":               {pod: "alone", patch: label("app", `"web"`)},
		"tells of a checkpoint":                 {pod: "alone", patch: annotation(v1alpha1.AnnotationLastCheckpoint, `"2026-01-01T00:00:00Z"`)},
		"names another queue for what waits":    {pod: "alone-waits", patch: label(v1alpha1.LabelQueue, `"blue"`)},
		"takes what waits out of its group":     {pod: "waits-0", patch: label(v1alpha1.LabelPodGroup, "null")},
		"names the same queue again":            {pod: "alone", patch: label(v1alpha1.LabelQueue, `"red"`)},
		"an administrator names another queue":  {pod: "alone", patch: label(v1alpha1.LabelQueue, `"blue"`), by: c.Client},
		"adds a label and takes the queue away": {pod: "alone", patch: `{"metadata":{"labels":{"app":"web","reprieve.dev/queue":null}}}`, want: "the label reprieve.dev/queue of"},
	} {
		t.Run(name, func(t *testing.T) {
			by := tenant
			if tc.by != nil {
				by = tc.by
			}
			pod := newPod(tc.pod, "", "")
			eventually(t, "the answer", func(ctx context.Context) string {
				return refusedBy(by.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.DryRunAll), tc.want)
			})
		})
	}
}

func testGroupDeletion(t *testing.T, c *cluster, tenant client.Client) {
	const has = `PodGroup "train" has members on nodes (2); delete them, or the object that creates them, and then the PodGroup`
	group := func(name string) *v1alpha1.PodGroup { return &v1alpha1.PodGroup{ObjectMeta: meta(name)} }
	for name, tc := range map[string]struct {
		do   func(context.Context) error
		want string
	}{
		"that runs":  {func(ctx context.Context) error { return tenant.Delete(ctx, group("train"), client.DryRunAll) }, has},
		"that waits": {func(ctx context.Context) error { return tenant.Delete(ctx, group("waits"), client.DryRunAll) }, ""},
		"all of them": {func(ctx context.Context) error {
			return tenant.DeleteAllOf(ctx, group(""), client.InNamespace(metav1.NamespaceDefault), client.DryRunAll)
		}, has},
		"as an administrator": {func(ctx context.Context) error { return c.Delete(ctx, group("train"), client.DryRunAll) }, ""},
		"as the scheduler": {func(ctx context.Context) error {
			return c.as(t, account, "system:masters").Delete(ctx, group("train"), client.DryRunAll)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string { return refusedBy(tc.do(ctx), tc.want) })
		})
	}
	t.Run("the root of a tree", func(t *testing.T) {
		tree := newTree("serving")
		part := group("prefill")
		part.Spec.PodGroupPolicy = gangOfTwo(low)
		part.Spec.SchedulingPolicy.Gang.MinCount, part.Spec.ParentCompositePodGroupName = 1, ptr.To("serving")
		c.create(t, tree, part, newPod("prefill-0", tenantPool, low, memberOf("prefill")))
		c.waitRunning(t, "prefill-0")
		eventually(t, "the refusal", func(ctx context.Context) string {
			return refusedBy(tenant.Delete(ctx, newTree("serving"), client.DryRunAll), `CompositePodGroup "serving" has members on nodes (1); delete them`)
		})
		if err := tenant.Delete(t.Context(), newPod("prefill-0", "", "")); err != nil {
			t.Fatal(err)
		}
		c.waitGone(t, "prefill-0")
		eventually(t, "the deletion", func(ctx context.Context) string { return said(tenant.Delete(ctx, newTree("serving"))) })
	})
	t.Run("after its members", func(t *testing.T) {
		short := group("short")
		short.Spec.PodGroupPolicy = gangOfTwo(low)
		short.Spec.SchedulingPolicy.Gang.MinCount = 1
		c.create(t, short, newPod("short-0", tenantPool, low, memberOf("short")))
		c.waitRunning(t, "short-0")
		eventually(t, "the refusal", func(ctx context.Context) string {
			return refusedBy(tenant.Delete(ctx, group("short"), client.DryRunAll), "has members on nodes (1)")
		})
		if err := tenant.Delete(t.Context(), newPod("short-0", "", "")); err != nil {
			t.Fatal(err)
		}
		c.waitGone(t, "short-0")
		eventually(t, "the deletion", func(ctx context.Context) string { return said(tenant.Delete(ctx, group("short"))) })
	})
}

// newTree returns a CompositePodGroup with minGroupCount 1.
func newTree(name string) *v1alpha1.CompositePodGroup {
	tree := &v1alpha1.CompositePodGroup{ObjectMeta: meta(name)}
	tree.Spec.PriorityClassName = ptr.To(low)
	tree.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: 1}
	return tree
}

func testGroupSize(t *testing.T, c *cluster, tenant client.Client) {
	const tooLarge, tooMany = "of a PodGroup have at most 65536 bytes", "a PodGroup has at most 16 field managers"
	many := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprintf("a%d", i)] = ""
		}
		return out
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PodGroup)
		want   string
	}{
		"as usual":              {func(*v1alpha1.PodGroup) {}, ""},
		"60 KiB of annotations": {func(pg *v1alpha1.PodGroup) { pg.Annotations = map[string]string{"a": strings.Repeat("x", 60<<10)} }, ""},
		"70 KiB of annotations": {func(pg *v1alpha1.PodGroup) { pg.Annotations = map[string]string{"a": strings.Repeat("x", 70<<10)} }, tooLarge},
		// In UTF-8, 35,000 of these characters are 70,000 bytes.
		"characters of two bytes": {func(pg *v1alpha1.PodGroup) { pg.Annotations = map[string]string{"a": strings.Repeat("ä", 35000)} }, tooLarge},
		"a thousand labels":       {func(pg *v1alpha1.PodGroup) { pg.Labels = many(1000) }, ""},
		"many labels":             {func(pg *v1alpha1.PodGroup) { pg.Labels = many(2000) }, tooLarge},
		"very many labels":        {func(pg *v1alpha1.PodGroup) { pg.Labels = many(60000) }, tooLarge},
		"an owner of a long name": {func(pg *v1alpha1.PodGroup) {
			pg.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: strings.Repeat("x", 70<<10), UID: "u"}}
		}, tooLarge},
		"many finalizers": {func(pg *v1alpha1.PodGroup) {
			for i := range 2000 {
				pg.Finalizers = append(pg.Finalizers, fmt.Sprintf("example.com/f%d", i))
			}
		}, tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string {
				pg := groupOf(gangOfTwo(low))
				tc.change(pg)
				return refusedBy(tenant.Create(ctx, pg, client.DryRunAll), tc.want)
			})
		})
	}
	t.Run("a tree with 70 KiB of annotations", func(t *testing.T) {
		eventually(t, "the answer", func(ctx context.Context) string {
			tree := newTree("large")
			tree.Annotations = map[string]string{"a": strings.Repeat("x", 70<<10)}
			return refusedBy(tenant.Create(ctx, tree, client.DryRunAll), tooLarge)
		})
	})
	t.Run("field managers", func(t *testing.T) {
		apply := func(i int) error {
			text := fmt.Sprintf(`{"apiVersion":"reprieve.dev/v1alpha1","kind":"PodGroup","metadata":{"labels":{"l%d":""}}}`, i)
			return tenant.Patch(t.Context(), &v1alpha1.PodGroup{ObjectMeta: meta("waits")}, client.RawPatch(types.ApplyPatchType, []byte(text)),
				client.FieldOwner(fmt.Sprintf("m%d", i)))
		}
		for i := range 30 {
			if err := apply(i); err != nil {
				if why := refusedBy(err, tooMany); why != "" || i < 8 {
					t.Errorf("after %d managers: %s", i, why)
				}
				return
			}
		}
		t.Error("no manager is refused")
	})
	t.Run("one that was too large before", func(t *testing.T) {
		old := groupOf(gangOfTwo("missing"))
		old.Name, old.Annotations = "old", map[string]string{"a": strings.Repeat("x", 70<<10), "b": strings.Repeat("x", 1<<10)}
		if err := c.as(t, account, "system:masters").Create(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		for patch, want := range map[string]string{
			`{"metadata":{"annotations":{"b":null}}}`:               "",
			`{"spec":{"schedulingPolicy":{"gang":{"minCount":1}}}}`: "",
			`{"metadata":{"annotations":{"c":"one more"}}}`:         tooLarge,
		} {
			err := tenant.Patch(t.Context(), old.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
			if why := refusedBy(err, want); why != "" {
				t.Errorf("%s: %s", patch, why)
			}
		}
	})
}

func testClassQuotas(t *testing.T, c *cluster, tenant client.Client) {
	quota := func(name, hard, count, operator string, classes ...string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: meta(name), Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceName(hard): resource.MustParse(count)},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOperator(operator), Values: classes,
			}}},
		}}
	}
	for class, value := range map[string]int32{"none": 1, "few": 2, "bare": 3, "free": 4} {
		c.create(t, priorityClass(class, value))
	}
	besides := quota("besides", "pods", "0", "In", "free")
	besides.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	all := &corev1.ResourceQuota{ObjectMeta: meta("all"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}}}
	c.create(t, quota("no-none", "pods", "0", "In", "none", "other"), quota("few", "count/pods", "3", "In", "few"), quota("no-cpu", "requests.cpu", "0", "In", "bare"),
		quota("others", "pods", "1k", "NotIn", "free"), besides, all)
	gang := func(class string, n int32) *v1alpha1.PodGroup {
		pg := groupOf(gangOfTwo(class))
		pg.Spec.SchedulingPolicy.Gang.MinCount = n
		return pg
	}
	basic := gang("none", 1)
	basic.Spec.DisruptionMode, basic.Spec.SchedulingPolicy = nil, &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
	unnamed := gang("", 1)
	unnamed.Spec.PriorityClassName = nil
	template := func(pg *v1alpha1.PodGroup) *v1alpha1.Workload {
		return workloadOf(gangOfTwo(low), pg.Spec.PodGroupPolicy)
	}
	raised := gang("free", 1)
	raised.Spec.PreemptionPriorityClassName = ptr.To("none")
	tree := func(class string, n int32) *v1alpha1.CompositePodGroup {
		root := &v1alpha1.CompositePodGroup{ObjectMeta: meta("tree")}
		root.Spec.PriorityClassName = &class
		root.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: n}
		return root
	}
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"a tree of a class without pods":  {tree("none", 1), `ResourceQuota "no-none" allows fewer pods of PriorityClass "none" than the group needs, which is 1`},
		"a tree of more than it has":      {tree("few", 4), `ResourceQuota "few" allows fewer pods of PriorityClass "few" than the group needs, which is 4`},
		"a tree as large as allowed":      {tree("few", 3), ""},
		"a tree of a class without CPU":   {tree("bare", 1), `ResourceQuota "no-cpu" allows no CPU or no memory for pods of PriorityClass "bare"`},
		"a tree of a class of no quota":   {tree("free", 8), ""},
		"a class without pods":            {gang("none", 1), `ResourceQuota "no-none" allows fewer pods of PriorityClass "none" than the group needs, which is 1`},
		"one by one":                      {basic, `ResourceQuota "no-none" allows fewer`},
		"more than the quota has":         {gang("few", 4), `ResourceQuota "few" allows fewer pods of PriorityClass "few" than the group needs, which is 4`},
		"as many as the quota has":        {gang("few", 3), ""},
		"a class without CPU":             {gang("bare", 1), `ResourceQuota "no-cpu" allows no CPU or no memory for pods of PriorityClass "bare"`},
		"a class of no quota":             {gang("free", 2000), ""},
		"a class of the others":           {gang(low, 2000), `ResourceQuota "others" allows fewer`},
		"no class":                        {unnamed, ""},
		"a preemption class without pods": {raised, `ResourceQuota "no-none" allows fewer pods of PriorityClass "none" than the group needs, which is 1`},
		"a template of such a class":      {template(raised), `ResourceQuota "no-none" allows fewer pods of the PriorityClass of a template than a group needs`},
		"a template without pods":         {template(gang("none", 1)), `ResourceQuota "no-none" allows fewer pods of the PriorityClass of a template than a group needs`},
		"a template without CPU":          {template(gang("bare", 1)), `ResourceQuota "no-cpu" allows no CPU or no memory for pods of the PriorityClass of a template`},
		"a template as large as allowed":  {template(gang("few", 3)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string {
				o, _ := tc.object.DeepCopyObject().(client.Object)
				return refusedBy(tenant.Create(ctx, o, client.DryRunAll), tc.want)
			})
		})
	}
	t.Run("raised later", func(t *testing.T) {
		small := gang("few", 2)
		small.Name = "small"
		if err := tenant.Create(t.Context(), small); err != nil {
			t.Fatal(err)
		}
		raise := func(n int) error {
			return tenant.Patch(t.Context(), small.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, n)), client.DryRunAll)
		}
		if why := refusedBy(raise(4), `ResourceQuota "few" allows fewer`) + refusedBy(raise(3), ""); why != "" {
			t.Error(why)
		}
	})
}

// testControllersPass checks that the cluster's controllers may delete a group with running
// members. The garbage collector does this after the owner of the group is gone.
func testControllersPass(t *testing.T, c *cluster, tenant client.Client) {
	for _, controller := range []string{"generic-garbage-collector", "namespace-controller"} {
		account := "system:serviceaccount:kube-system:" + controller
		by := c.as(t, account, "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
		eventually(t, controller, func(ctx context.Context) string {
			return said(by.Delete(ctx, &v1alpha1.PodGroup{ObjectMeta: meta("train")}, client.DryRunAll))
		})
	}
	owner := &corev1.ConfigMap{ObjectMeta: meta("owner")}
	if err := tenant.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	owned := groupOf(gangOfTwo(low))
	owned.Name, owned.Spec.SchedulingPolicy.Gang.MinCount = "owned", 1
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	if err := tenant.Create(t.Context(), owned); err != nil {
		t.Fatal(err)
	}
	c.create(t, newPod("owned-0", tenantPool, low, memberOf("owned")))
	eventually(t, "the member has a node", func(ctx context.Context) string {
		return refusedBy(tenant.Delete(ctx, owned.DeepCopy(), client.DryRunAll), "has members on nodes (1)")
	})
	if err := tenant.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the garbage collector deletes the group", func(ctx context.Context) string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(owned), &v1alpha1.PodGroup{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there (%v)", err)
		}
		return ""
	})
}

// testNamespaceGoes checks that a namespace with a running group can be deleted.
func testNamespaceGoes(t *testing.T, c *cluster) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}}
	c.create(t, ns)
	tenant := c.tenant(t, ns.Name)
	pg := groupOf(gangOfTwo(low))
	pg.Namespace, pg.Spec.SchedulingPolicy.Gang.MinCount = ns.Name, 1
	member := newPod("it-0", tenantPool, low, memberOf("it"))
	member.Namespace, member.Spec.TerminationGracePeriodSeconds = ns.Name, ptr.To[int64](5)
	for _, o := range []client.Object{pg, member} {
		eventually(t, "create "+o.GetName(), func(ctx context.Context) string { return said(client.IgnoreAlreadyExists(tenant.Create(ctx, o))) })
	}
	eventually(t, "the member has a node", func(ctx context.Context) string {
		return refusedBy(tenant.Delete(ctx, pg.DeepCopy(), client.DryRunAll), "has members on nodes (1)")
	})
	if err := c.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has gone", func(ctx context.Context) string {
		var now corev1.Namespace
		if err := c.Get(ctx, client.ObjectKeyFromObject(ns), &now); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("%v, %+v", err, now.Status.Conditions)
		}
		return ""
	})
}
