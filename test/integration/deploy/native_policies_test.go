package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestNativeTenant tests the admission policies of nativeComponent for PodGroups of
// scheduling.k8s.io. They must reject the same changes that the base policies reject for PodGroups
// of reprieve.dev.
func TestNativeTenant(t *testing.T) {
	if stage.Kubernetes(t).Minor < 36 {
		t.Skip("Kubernetes has no such PodGroups")
	}
	c := startClusterOf(t, overlay(t, nativeComponent), map[string]int{tenantPool: 2}, playground.Options{NativeWorkloadAPI: true})
	c.startScheduler(t, name+"-0")
	c.create(t, priorityClass(low, lowValue))
	tenant := c.tenant(t, metav1.NamespaceDefault)
	for _, o := range []client.Object{
		nativeGang(t, "train", low), nativeGang(t, "waits", low),
		newPod("train-0", tenantPool, low, nativeMemberOf("train")), newPod("train-1", tenantPool, low, nativeMemberOf("train")),
		newPod("waits-0", tenantPool, low, nativeMemberOf("waits")),
	} {
		c.create(t, o)
	}
	c.waitRunning(t, "train-0", "train-1")
	t.Run("deletion", func(t *testing.T) { testNativeDeletion(t, c, tenant) })
	t.Run("size", func(t *testing.T) { testNativeSize(t, tenant) })
	t.Run("number", func(t *testing.T) { testNativeNumber(t, c) })
	t.Run("quotas of classes", func(t *testing.T) { testNativeQuotas(t, c, tenant) })
	t.Run("classes of the system", func(t *testing.T) { testNativeSystemClasses(t, c) })
	t.Run("queues", func(t *testing.T) { testNativeQueues(t, c, tenant) })
	t.Run("status", func(t *testing.T) { testNativeStatus(t, c) })
}

func testNativeDeletion(t *testing.T, c *cluster, tenant client.Client) {
	const has = `PodGroup "train" has members on nodes; delete them, or the object that creates them, and then the PodGroup`
	collector := c.as(t, "system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
	for name, tc := range map[string]struct {
		group string
		by    client.Client
		want  string
	}{
		"that runs":                {"train", tenant, has},
		"that waits":               {"waits", tenant, ""},
		"as an administrator":      {"train", c.Client, ""},
		"as the garbage collector": {"train", collector, ""},
		"as the scheduler":         {"train", c.as(t, account, "system:masters"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string {
				return refusedBy(tc.by.Delete(ctx, nativeGang(t, tc.group, ""), client.DryRunAll), tc.want)
			})
		})
	}
	t.Run("all of them", func(t *testing.T) {
		err := tenant.DeleteAllOf(t.Context(), nativeGang(t, "", ""), client.InNamespace(metav1.NamespaceDefault), client.DryRunAll)
		if why := refusedBy(err, has); why != "" {
			t.Error(why)
		}
	})
	t.Run("after its members", func(t *testing.T) {
		c.create(t, nativeGang(t, "short", low),
			newPod("short-0", tenantPool, low, nativeMemberOf("short")), newPod("short-1", tenantPool, low, nativeMemberOf("short")))
		c.waitRunning(t, "short-0", "short-1")
		eventually(t, "the refusal", func(ctx context.Context) string {
			return refusedBy(tenant.Delete(ctx, nativeGang(t, "short", ""), client.DryRunAll), "has members on nodes")
		})
		// Delete one of the two members. The gang is then below minCount, but the other member
		// still has a node.
		if err := tenant.Delete(t.Context(), newPod("short-0", "", "")); err != nil {
			t.Fatal(err)
		}
		c.waitGone(t, "short-0")
		eventually(t, "the status after the first member", func(ctx context.Context) string {
			if apimeta.IsStatusConditionTrue(c.nativeConditions(ctx, t, "short"), v1alpha1.ConditionPodGroupScheduled) {
				return "the group counts as scheduled"
			}
			return refusedBy(tenant.Delete(ctx, nativeGang(t, "short", ""), client.DryRunAll), "has members on nodes")
		})
		if err := tenant.Delete(t.Context(), newPod("short-1", "", "")); err != nil {
			t.Fatal(err)
		}
		c.waitGone(t, "short-1")
		eventually(t, "the deletion", func(ctx context.Context) string { return said(tenant.Delete(ctx, nativeGang(t, "short", ""))) })
	})
}

// nativeConditions returns the conditions of a PodGroup of scheduling.k8s.io.
func (c *cluster) nativeConditions(ctx context.Context, t *testing.T, group string) []metav1.Condition {
	t.Helper()
	pg := nativeGang(t, group, "")
	if err := c.Get(ctx, client.ObjectKeyFromObject(pg), pg); err != nil {
		t.Fatal(err)
	}
	return stage.ConditionsOf(pg)
}

func testNativeSize(t *testing.T, tenant client.Client) {
	const tooLarge = "of a PodGroup have at most 65536 bytes"
	for kib, want := range map[int]string{60: "", 70: tooLarge} {
		pg := nativeGang(t, "large", low)
		pg.SetAnnotations(map[string]string{"a": strings.Repeat("x", kib<<10)})
		if why := refusedBy(tenant.Create(t.Context(), pg, client.DryRunAll), want); why != "" {
			t.Errorf("%d KiB of annotations: %s", kib, why)
		}
	}
	grow := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"a":%q}}}`, strings.Repeat("x", 70<<10)))
	if why := refusedBy(tenant.Patch(t.Context(), nativeGang(t, "waits", ""), grow, client.DryRunAll), tooLarge); why != "" {
		t.Errorf("a group that grows: %s", why)
	}
}

// testNativeNumber checks that the ResourceQuota in deploy/README.md limits the number of PodGroups
// in a namespace.
func testNativeNumber(t *testing.T, c *cluster) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "counted"}}
	c.create(t, ns)
	tenant := c.tenant(t, ns.Name)
	create := func(ctx context.Context, name string) error {
		pg := nativeGang(t, name, low)
		pg.SetNamespace(ns.Name)
		return tenant.Create(ctx, pg)
	}
	c.create(t, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "podgroups"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/podgroups.scheduling.k8s.io": resource.MustParse("1")},
	}})
	eventually(t, "the first group", func(ctx context.Context) string { return said(create(ctx, "a")) })
	eventually(t, "the second group", func(ctx context.Context) string { return refusedBy(create(ctx, "b"), "exceeded quota: podgroups") })
}

func testNativeQuotas(t *testing.T, c *cluster, tenant client.Client) {
	quota := func(name, hard, count, class string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceName(hard): resource.MustParse(count)},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{class},
			}}},
		}}
	}
	for class, value := range map[string]int32{"none": 1, "few": 2, "bare": 3} {
		c.create(t, priorityClass(class, value))
	}
	c.create(t, quota("no-none", "pods", "0", "none"), quota("few", "count/pods", "3", "few"), quota("no-cpu", "requests.cpu", "0", "bare"))
	gang := func(class string, n int32) client.Object {
		return stage.NativeGroups(t).New(metav1.NamespaceDefault, stage.Group{Name: "it", MinCount: n, Priority: class})
	}
	for name, tc := range map[string]struct {
		group client.Object
		want  string
	}{
		"a class without pods":     {gang("none", 1), `ResourceQuota "no-none" allows fewer pods of PriorityClass "none" than the group needs, which is 1`},
		"one by one":               {gang("none", 0), `ResourceQuota "no-none" allows fewer`},
		"more than the quota has":  {gang("few", 4), `ResourceQuota "few" allows fewer pods of PriorityClass "few" than the group needs, which is 4`},
		"as many as the quota has": {gang("few", 3), ""},
		"a class without CPU":      {gang("bare", 1), `ResourceQuota "no-cpu" allows no CPU or no memory for pods of PriorityClass "bare"`},
		"a class of no quota":      {gang(low, 2000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string {
				o, _ := tc.group.DeepCopyObject().(client.Object)
				return refusedBy(tenant.Create(ctx, o, client.DryRunAll), tc.want)
			})
		})
	}
	if stage.Kubernetes(t).Minor < 37 {
		return
	}
	t.Run("raised later", func(t *testing.T) {
		small := gang("few", 2)
		if err := tenant.Create(t.Context(), small); err != nil {
			t.Fatal(err)
		}
		for n, want := range map[int]string{4: `ResourceQuota "few" allows fewer`, 3: ""} {
			raise := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, n))
			if why := refusedBy(tenant.Patch(t.Context(), gang("few", 2), raise, client.DryRunAll), want); why != "" {
				t.Errorf("minCount %d: %s", n, why)
			}
		}
	})
}

// testNativeSystemClasses checks that Kubernetes rejects PodGroups with the system's
// PriorityClasses, in every namespace and for every user.
func testNativeSystemClasses(t *testing.T, c *cluster) {
	for _, class := range []string{"system-cluster-critical", "system-node-critical"} {
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			pg := stage.NativeGroups(t).New(namespace, stage.Group{Name: "it", MinCount: 1, Priority: class})
			if why := refusedBy(c.Create(t.Context(), pg, client.DryRunAll), "must be less than or equal to 1000000000"); why != "" {
				t.Errorf("%s in %s: %s", class, namespace, why)
			}
		}
	}
}

// testNativeQueues checks the label of a PodGroup that names its Queue. The Queue must permit the
// PodGroup's priority, and the label must not change while a member has a node.
func testNativeQueues(t *testing.T, c *cluster, tenant client.Client) {
	c.create(t, priorityClass(high, highValue),
		&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "open"}, Spec: v1alpha1.QueueSpec{MaxPriorityClass: ptr.To(low)}},
		&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "closed"}, Spec: v1alpha1.QueueSpec{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "other"}},
		}})
	const sealed = "the label reprieve.dev/queue of a PodGroup with members on nodes cannot change"
	in := func(queue, class string) func(context.Context) error {
		return func(ctx context.Context) error {
			pg := nativeGang(t, "queued", class)
			pg.SetLabels(map[string]string{v1alpha1.LabelQueue: queue})
			return tenant.Create(ctx, pg, client.DryRunAll)
		}
	}
	label := func(group, key string, by client.Client) func(context.Context) error {
		return func(ctx context.Context) error {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"open"}}}`, key))
			return by.Patch(ctx, nativeGang(t, group, ""), patch, client.DryRunAll)
		}
	}
	for name, tc := range map[string]struct {
		do   func(context.Context) error
		want string
	}{
		"a Queue for all":                    {in("open", low), ""},
		"a Queue of another namespace":       {in("closed", low), `Queue "closed" is not for namespace "default"`},
		"a class above the Queue's":          {in("open", high), fmt.Sprintf(`priority %d is above %d, the highest that Queue "open" takes`, highValue, lowValue)},
		"a label of a group that runs":       {label("train", v1alpha1.LabelQueue, tenant), sealed},
		"by an administrator":                {label("train", v1alpha1.LabelQueue, c.Client), ""},
		"another label of a group that runs": {label("train", "app", tenant), ""},
		"a label of a group that waits":      {label("waits", v1alpha1.LabelQueue, tenant), ""},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string { return refusedBy(tc.do(ctx), tc.want) })
		})
	}
}

// testNativeStatus checks that only Reprieve may write conditions whose types begin with
// reprieve.dev/. Other conditions may be written by each user who may write the status.
func testNativeStatus(t *testing.T, c *cluster) {
	const refused = "the conditions of a PodGroup whose types begin with reprieve.dev/ are written by Reprieve alone"
	write := func(ctx context.Context, by client.Client, change func([]metav1.Condition) []metav1.Condition) error {
		text, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": change(c.nativeConditions(ctx, t, "train"))}})
		if err != nil {
			t.Fatal(err)
		}
		return by.Status().Patch(ctx, nativeGang(t, "train", ""), client.RawPatch(types.MergePatchType, text), client.DryRunAll)
	}
	with := func(kind string) func([]metav1.Condition) []metav1.Condition {
		return func(all []metav1.Condition) []metav1.Condition {
			return append(slices.Clone(all), metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: "Forged", Message: "{}", LastTransitionTime: metav1.Now(),
			})
		}
	}
	without := func(all []metav1.Condition) []metav1.Condition {
		return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return c.Type == native.ConditionMembersScheduled })
	}
	for name, tc := range map[string]struct {
		by     client.Client
		change func([]metav1.Condition) []metav1.Condition
		want   string
	}{
		"forges a preemption":         {c.Client, with(native.ConditionDisruption), refused},
		"takes a condition of ours":   {c.Client, without, refused},
		"adds a condition of its own": {c.Client, with("example.com/Mine"), ""},
		"Reprieve itself":             {c.as(t, account, "system:masters"), with(native.ConditionDisruption), ""},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the answer", func(ctx context.Context) string { return refusedBy(write(ctx, tc.by, tc.change), tc.want) })
		})
	}
}

// TestNativePoliciesWithoutTheAPI checks the admission policies of nativeComponent on an API server
// without PodGroups of scheduling.k8s.io. They must cause no error and no warning, and the base
// policies must work as usual.
func TestNativePoliciesWithoutTheAPI(t *testing.T) {
	c := startClusterOf(t, overlay(t, nativeComponent), map[string]int{tenantPool: 1}, playground.Options{})
	requireTypesChecked(t, c, c.manifests.ofKind("ValidatingAdmissionPolicy"))
	c.create(t, priorityClass(low, lowValue))
	large := groupOf(gangOfTwo(low))
	large.Annotations = map[string]string{"a": strings.Repeat("x", 70<<10)}
	eventually(t, "the answer for a large PodGroup", func(ctx context.Context) string {
		return refusedBy(c.Create(ctx, large.DeepCopy(), client.DryRunAll), "of a PodGroup have at most 65536 bytes")
	})
}
