package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// These are the API server's messages for rejected objects.
const (
	groupPriorityRefused = `podgroups.reprieve.dev "it" is forbidden: ValidatingAdmissionPolicy 'podgroup-priority.reprieve.dev' with binding 'podgroup-priority.reprieve.dev' denied request: ` +
		`spec.priority is filled in by Reprieve; leave it out, and name a PriorityClass in spec.priorityClassName`
	groupPolicyRefused = `podgroups.reprieve.dev "it" is forbidden: ValidatingAdmissionPolicy 'podgroup-priority.reprieve.dev' with binding 'podgroup-priority.reprieve.dev' denied request: ` +
		`spec.preemptionPolicy is filled in by Reprieve; leave it out, and name a PriorityClass in spec.priorityClassName`
	groupSourceRefused = `podgroups.reprieve.dev "it" is forbidden: ValidatingAdmissionPolicy 'podgroup-priority.reprieve.dev' with binding 'podgroup-priority.reprieve.dev' denied request: ` +
		`the annotation reprieve.dev/class-of is written by Reprieve alone`
	groupStatusRefused = `podgroups.reprieve.dev "filled-in" is forbidden: ValidatingAdmissionPolicy 'podgroup-status.reprieve.dev' with binding 'podgroup-status.reprieve.dev' denied request: ` +
		`the status of a PodGroup is written by Reprieve alone`
	templatePriorityRefused = `workloads.reprieve.dev "it" is forbidden: ValidatingAdmissionPolicy 'workload-priority.reprieve.dev' with binding 'workload-priority.reprieve.dev' denied request: ` +
		`the priority of a template is filled in by Reprieve; leave it out, and name a PriorityClass in the template's priorityClassName`
	templatePolicyRefused = `workloads.reprieve.dev "it" is forbidden: ValidatingAdmissionPolicy 'workload-priority.reprieve.dev' with binding 'workload-priority.reprieve.dev' denied request: ` +
		`the preemptionPolicy of a template is filled in by Reprieve; leave it out, and name a PriorityClass in the template's priorityClassName`
	minimumRefused = `priorityclasses.scheduling.k8s.io "it" is forbidden: ValidatingAdmissionPolicy 'preemption-toleration.reprieve.dev' with binding 'preemption-toleration.reprieve.dev' denied request: ` +
		`the annotation preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority must be an integer between -2147483648 and 2147483647`
	secondsRefused = `priorityclasses.scheduling.k8s.io "it" is forbidden: ValidatingAdmissionPolicy 'preemption-toleration.reprieve.dev' with binding 'preemption-toleration.reprieve.dev' denied request: ` +
		`the annotation preemption-toleration.scheduling.x-k8s.io/toleration-seconds must be a whole number of seconds between -9223372036 and 9223372036`
	neverRefused = `priorityclasses.scheduling.k8s.io "it" is forbidden: ValidatingAdmissionPolicy 'preemption-toleration.reprieve.dev' with binding 'preemption-toleration.reprieve.dev' denied request: ` +
		`the annotation reprieve.dev/never-seconds must be a whole number of seconds between 1 and 9223372036`
)

// testAdmission checks which objects the admission policies accept, and which they reject with the
// expected message.
func testAdmission(t *testing.T, c *cluster) {
	gang := gangOfTwo(high)
	early := map[string]struct {
		object client.Object
		want   string
	}{
		"PodGroup":      {groupOf(with(gang, 1, "")), groupPriorityRefused},
		"Workload":      {workloadOf(with(gang, 1, "")), templatePriorityRefused},
		"PriorityClass": {classOf("x", ""), minimumRefused},
	}
	for kind, tc := range early {
		// A new policy takes effect after a moment, when the API server has received it through a
		// watch.
		eventually(t, "the policy for "+kind, func(ctx context.Context) string {
			if got := said(c.Create(ctx, tc.object, client.DryRunAll)); got != tc.want {
				return fmt.Sprintf("got %q, want %q", got, tc.want)
			}
			return ""
		})
	}
	t.Run("the scheduler", func(t *testing.T) { testSchedulerFillsIn(t, c) })
	t.Run("statuses", func(t *testing.T) { testStatusPolicy(t, c) })
	t.Run("priorities", func(t *testing.T) { testPriorityPolicies(t, c) })
	t.Run("tolerations", func(t *testing.T) { testTolerationPolicy(t, c) })
	t.Run("tolerations that are there", func(t *testing.T) { testTolerationUpdates(t, c) })
	t.Run("tolerations without effect", func(t *testing.T) { testTolerationWarning(t, c) })
	t.Run("no warning", func(t *testing.T) { testTypeChecks(t, c) })
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

// with returns a copy of the policy with fields that only Reprieve may set.
func with(policy v1alpha1.PodGroupPolicy, priority int32, preemption corev1.PreemptionPolicy) v1alpha1.PodGroupPolicy {
	policy.Priority = &priority
	if preemption != "" {
		policy.PreemptionPolicy = &preemption
	}
	return policy
}

func groupOf(policy v1alpha1.PodGroupPolicy) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{ObjectMeta: meta("it"), Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: policy}}
}

func workloadOf(policies ...v1alpha1.PodGroupPolicy) *v1alpha1.Workload {
	w := &v1alpha1.Workload{ObjectMeta: meta("it")}
	for i, policy := range policies {
		w.Spec.PodGroupTemplates = append(w.Spec.PodGroupTemplates, v1alpha1.PodGroupTemplate{Name: fmt.Sprintf("t%d", i), PodGroupPolicy: policy})
	}
	return w
}

// classOf returns a PriorityClass with the annotations of a toleration. It omits an empty
// annotation.
func classOf(minimum, seconds string) *schedulingv1.PriorityClass {
	class := priorityClass("it", 5)
	class.Annotations = map[string]string{}
	if minimum != "" {
		class.Annotations[preemptiontoleration.AnnotationMinimumPreemptablePriority] = minimum
	}
	if seconds != "" {
		class.Annotations[preemptiontoleration.AnnotationTolerationSeconds] = seconds
	}
	return class
}

// testSchedulerFillsIn checks that the scheduler may set the fields that the policies forbid to
// other users.
func testSchedulerFillsIn(t *testing.T, c *cluster) {
	w := workloadOf(gangOfTwo(low))
	w.Name = "filled-in"
	pg := groupOf(v1alpha1.PodGroupPolicy{})
	pg.Name = "filled-in"
	pg.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: w.Name, PodGroupTemplateName: "t0"}
	c.create(t, w, pg)
	isFilledIn := func(policy *v1alpha1.PodGroupPolicy) bool {
		return ptr.Deref(policy.Priority, 0) == lowValue && ptr.Deref(policy.PreemptionPolicy, "") == corev1.PreemptLowerPriority
	}
	eventually(t, "what the scheduler fills in", func(ctx context.Context) string {
		for _, object := range []client.Object{w, pg} {
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err.Error()
			}
		}
		if !isFilledIn(&w.Spec.PodGroupTemplates[0].PodGroupPolicy) || !isFilledIn(&pg.Spec.PodGroupPolicy) {
			return "it has not yet"
		}
		return ""
	})
}

// testStatusPolicy checks that only Reprieve may write the status of a PodGroup, even if RBAC
// permits another user to write it. Reprieve acts on the status, so a wrong status would be
// dangerous.
func testStatusPolicy(t *testing.T, c *cluster) {
	pg := &v1alpha1.PodGroup{}
	pg.Name, pg.Namespace = "filled-in", meta("it").Namespace
	disrupt := func(by client.Client) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"startTime":"2026-01-01T00:00:00Z"}}`))
		return by.Status().Patch(t.Context(), pg.DeepCopy(), patch, client.DryRunAll)
	}
	eventually(t, "the policy for statuses", func(context.Context) string {
		if got := said(disrupt(c.Client)); got != groupStatusRefused {
			return fmt.Sprintf("got %q, want %q", got, groupStatusRefused)
		}
		return ""
	})
	if err := disrupt(c.as(t, account, "system:masters")); err != nil {
		t.Errorf("Reprieve itself is refused: %v", err)
	}
	// The policy applies only to the subresource status, so other changes are accepted.
	if err := c.Patch(t.Context(), pg.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll); err != nil {
		t.Errorf("An update beside the status is refused: %v", err)
	}
}

func testPriorityPolicies(t *testing.T, c *cluster) {
	// Use a separate namespace. Other tests run concurrently and use the same names.
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "priorities"}}
	c.create(t, own)
	// The PriorityClass does not exist. So the running scheduler does not set these fields.
	open := gangOfTwo("missing")
	done := with(open, 7, corev1.PreemptNever)
	onlyPolicy := open
	onlyPolicy.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	labelled := func(o client.Object) client.Object {
		o.SetLabels(map[string]string{"changed": "yes"})
		return o
	}
	classOfNamespace := func(pg *v1alpha1.PodGroup) *v1alpha1.PodGroup {
		pg.Annotations = map[string]string{v1alpha1.AnnotationClassOf: v1alpha1.FromNamespace}
		return pg
	}
	for name, tc := range map[string]struct {
		// before is an object that exists before the request, with fields that Reprieve has set;
		// nil if the request creates an object. after is the object of the request.
		before, after client.Object
		asReprieve    bool
		want          string
	}{
		"a group without either":                {after: groupOf(open)},
		"a group with a priority":               {after: groupOf(with(open, 7, "")), want: groupPriorityRefused},
		"a group with priority 0":               {after: groupOf(with(open, 0, "")), want: groupPriorityRefused},
		"a group with a policy":                 {after: groupOf(onlyPolicy), want: groupPolicyRefused},
		"a group's priority is set later":       {before: groupOf(open), after: groupOf(with(open, 7, "")), want: groupPriorityRefused},
		"a group's policy is set later":         {before: groupOf(open), after: groupOf(onlyPolicy), want: groupPolicyRefused},
		"a group that is left as it is":         {before: groupOf(done), after: labelled(groupOf(done))},
		"a group without either is left so":     {before: groupOf(open), after: labelled(groupOf(open))},
		"a group's priority, by Reprieve":       {before: groupOf(open), after: groupOf(done), asReprieve: true},
		"a group that says whose class it has":  {after: classOfNamespace(groupOf(open)), want: groupSourceRefused},
		"a group says so later":                 {before: groupOf(open), after: classOfNamespace(groupOf(open)), want: groupSourceRefused},
		"a group that says so is left as it is": {before: classOfNamespace(groupOf(open)), after: labelled(classOfNamespace(groupOf(open)))},
		"a group says so, by Reprieve":          {before: groupOf(open), after: classOfNamespace(groupOf(open)), asReprieve: true},
		"a Workload without either":             {after: workloadOf(open, open)},
		"a Workload with a priority":            {after: workloadOf(open, with(open, 7, "")), want: templatePriorityRefused},
		"a Workload with a policy":              {after: workloadOf(open, onlyPolicy), want: templatePolicyRefused},
		"a template's priority is set later":    {before: workloadOf(open, open), after: workloadOf(open, with(open, 7, "")), want: templatePriorityRefused},
		"a template's policy is set later":      {before: workloadOf(open), after: workloadOf(onlyPolicy), want: templatePolicyRefused},
		"a Workload that is left as it is":      {before: workloadOf(done), after: labelled(workloadOf(done))},
		"a template's priority, by Reprieve":    {before: workloadOf(open, open), after: workloadOf(done, open), asReprieve: true},
		"another template has that priority":    {before: workloadOf(done, open), after: workloadOf(done, with(open, 7, "")), want: templatePriorityRefused},
		"one template has it, and all are left": {before: workloadOf(done, open), after: labelled(workloadOf(done, open))},
	} {
		t.Run(name, func(t *testing.T) {
			tc.after.SetNamespace(own.Name)
			if tc.before == nil {
				if got := said(c.Create(t.Context(), tc.after, client.DryRunAll)); got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
				return
			}
			tc.before.SetNamespace(own.Name)
			// Reprieve's ServiceAccount may not create objects. So create the object as a user with
			// the name of this account, in the group of administrators.
			inName := c.as(t, account, "system:masters")
			if err := inName.Create(t.Context(), tc.before); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Delete(t.Context(), tc.before); err != nil {
					t.Error(err)
				}
			}()
			tc.after.SetUID(tc.before.GetUID())
			tc.after.SetResourceVersion(tc.before.GetResourceVersion())
			by := c.Client
			if tc.asReprieve {
				by = inName
			}
			if got := said(by.Patch(t.Context(), tc.after, client.MergeFrom(tc.before), client.DryRunAll)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func testTolerationPolicy(t *testing.T, c *cluster) {
	long := strings.Repeat("9", 200000)
	for name, tc := range map[string]struct{ minimum, seconds, want string }{
		"neither":                        {},
		"both":                           {minimum: "10000", seconds: "3600"},
		"zero":                           {minimum: "0", seconds: "0"},
		"negative":                       {minimum: "-1", seconds: "-1"},
		"with a plus":                    {minimum: "+7", seconds: "+7"},
		"with leading zeros":             {minimum: "-007", seconds: "00000000000000000000007"},
		"a long row of zeros":            {minimum: strings.Repeat("0", 1000) + "7"},
		"negative zero":                  {minimum: "-0", seconds: "-0"},
		"highest minimum":                {minimum: "2147483647"},
		"minimum above that":             {minimum: "2147483648", want: minimumRefused},
		"lowest minimum":                 {minimum: "-2147483648"},
		"minimum below that":             {minimum: "-2147483649", want: minimumRefused},
		"minimum of eleven digits":       {minimum: "21474836470", want: minimumRefused},
		"minimum longer than 64 bits":    {minimum: "99999999999999999999", want: minimumRefused},
		"minimum as long as can be":      {minimum: long, want: minimumRefused},
		"most seconds":                   {seconds: "9223372036"},
		"seconds above that":             {seconds: "9223372037", want: secondsRefused},
		"fewest seconds":                 {seconds: "-9223372036"},
		"seconds below that":             {seconds: "-9223372037", want: secondsRefused},
		"seconds of 64 bits":             {seconds: "9223372036854775807", want: secondsRefused},
		"seconds longer than 64 bits":    {seconds: "99999999999999999999", want: secondsRefused},
		"seconds as long as can be":      {seconds: long, want: secondsRefused},
		"words":                          {minimum: "high", want: minimumRefused},
		"a fraction":                     {seconds: "1.5", want: secondsRefused},
		"an exponent":                    {seconds: "1e3", want: secondsRefused},
		"a unit":                         {seconds: "1h", want: secondsRefused},
		"a hexadecimal number":           {minimum: "0x10", want: minimumRefused},
		"an underscore":                  {minimum: "1_000", want: minimumRefused},
		"blank":                          {minimum: " ", want: minimumRefused},
		"a blank in front":               {minimum: " 1", want: minimumRefused},
		"a line break":                   {seconds: "1\n", want: secondsRefused},
		"two lines":                      {seconds: "1\n2", want: secondsRefused},
		"signs alone":                    {seconds: "-", want: secondsRefused},
		"two signs":                      {seconds: "--1", want: secondsRefused},
		"other digits":                   {seconds: "١", want: secondsRefused},
		"one of them good":               {minimum: "5", seconds: "x", want: secondsRefused},
		"both bad, of which one is told": {minimum: "x", seconds: "x", want: minimumRefused},
	} {
		t.Run(name, func(t *testing.T) {
			class := classOf(tc.minimum, tc.seconds)
			if got := said(c.Create(t.Context(), class, client.DryRunAll)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			// The admission policy and the scheduler must agree whether the class is valid.
			if _, err := preemptiontoleration.FromPriorityClass(class); (err != nil) != (tc.want != "") {
				t.Errorf("the package says %v", err)
			}
		})
	}
	t.Run("an empty value", func(t *testing.T) {
		class := classOf("", "")
		class.Annotations[preemptiontoleration.AnnotationTolerationSeconds] = ""
		if got := said(c.Create(t.Context(), class, client.DryRunAll)); got != secondsRefused {
			t.Errorf("got %q, want %q", got, secondsRefused)
		}
	})
	for seconds, want := range map[string]string{
		"1": "", "+60": "", "9223372036": "",
		"": neverRefused, "0": neverRefused, "-1": neverRefused, "9223372037": neverRefused, "1h": neverRefused, "99999999999999999999": neverRefused,
	} {
		t.Run("disruptionMode Never for "+seconds, func(t *testing.T) {
			class := classOf("10", "")
			class.Annotations[preemptiontoleration.AnnotationNeverSeconds] = seconds
			if got := said(c.Create(t.Context(), class, client.DryRunAll)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			_, err := preemptiontoleration.NeverFromPriorityClass(class)
			if (err == nil) != (want == "") {
				t.Errorf("the scheduler reads it with the error %v", err)
			}
		})
	}
}

func testTolerationUpdates(t *testing.T, c *cluster) {
	// Delete the binding of the policy to create a malformed class. Such a class may exist before
	// Reprieve is installed.
	policy := "preemption-toleration.reprieve.dev"
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy}}
	if err := c.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	malformed := classOf("x", "")
	eventually(t, "the policy is off", func(ctx context.Context) string { return said(c.Create(ctx, malformed)) })
	c.create(t, c.manifests.find(t, "ValidatingAdmissionPolicyBinding", policy).DeepCopy())
	probe := classOf("x", "")
	probe.Name = "probe"
	eventually(t, "the policy is on again", func(ctx context.Context) string {
		if c.Create(ctx, probe, client.DryRunAll) == nil {
			return "it is not"
		}
		return ""
	})
	good := classOf("5", "")
	good.Name = "good"
	c.create(t, good)
	for title, tc := range map[string]struct {
		from                   *schedulingv1.PriorityClass
		minimum, seconds, want string
	}{
		"a good one is left":          {from: good, minimum: "5"},
		"a good one is taken off":     {from: good},
		"a good one is changed":       {from: good, minimum: "6", seconds: "1"},
		"a good one is spoiled":       {from: good, minimum: "y", want: minimumRefused},
		"a bad one is added":          {from: good, minimum: "5", seconds: "x", want: secondsRefused},
		"a bad one is left":           {from: malformed, minimum: "x"},
		"a bad one is changed":        {from: malformed, minimum: "y", want: minimumRefused},
		"a bad one is mended":         {from: malformed, minimum: "5"},
		"a bad one beside a good one": {from: malformed, minimum: "x", seconds: "1"},
	} {
		t.Run(title, func(t *testing.T) {
			changed := tc.from.DeepCopy()
			changed.Annotations = classOf(tc.minimum, tc.seconds).Annotations
			changed.Description = "changed"
			want := strings.Replace(tc.want, `"it"`, `"`+changed.Name+`"`, 1)
			if got := said(c.Update(t.Context(), changed, client.DryRunAll)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// warnings collects the warnings in responses of the API server.
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// testTolerationWarning checks that the API server accepts a class whose toleration protects from
// no preemptor: the minimum admits every priority above the class. The API server must return a
// warning about such a class.
func testTolerationWarning(t *testing.T, c *cluster) {
	for name, tc := range map[string]struct {
		minimum, seconds string
		warns            bool
	}{
		"seconds without a minimum":         {seconds: "600", warns: true},
		"seconds for good":                  {seconds: "-1", warns: true},
		"a minimum of the value + 1":        {minimum: "11", seconds: "600", warns: true},
		"a minimum above it":                {minimum: "12", seconds: "600"},
		"a minimum alone":                   {minimum: "12"},
		"no seconds":                        {seconds: "0"},
		"neither":                           {},
		"a negative minimum":                {minimum: "-5", seconds: "600", warns: true},
		"the largest minimum that there is": {minimum: "2147483647", seconds: "600"},
	} {
		t.Run(name, func(t *testing.T) {
			// A new policy takes effect after a moment, when the API server has received it through
			// a watch.
			eventually(t, "the warning", func(ctx context.Context) string {
				said := &warnings{}
				config := c.playground.RESTConfig()
				config.WarningHandler = said
				cl, err := client.New(config, client.Options{Scheme: c.Scheme()})
				if err != nil {
					return err.Error()
				}
				class := classOf(tc.minimum, tc.seconds)
				// Use a generated name, because other tests create a class with the usual name.
				class.Name, class.GenerateName, class.Value = "", "it-", 10
				if err := cl.Create(ctx, class, client.DryRunAll); err != nil {
					return err.Error()
				}
				warned := slices.ContainsFunc(said.texts, func(text string) bool { return strings.Contains(text, "keeps no higher priority out") })
				if warned != tc.warns {
					return fmt.Sprintf("warnings %q, want one: %t", said.texts, tc.warns)
				}
				return ""
			})
		})
	}
}

// testTypeChecks checks that the controller manager found no type errors in the CEL expressions of
// the policies.
func testTypeChecks(t *testing.T, c *cluster) {
	policies := c.manifests.ofKind("ValidatingAdmissionPolicy")
	if len(policies) != 20 {
		t.Errorf("there are %d policies, the tests know of 20", len(policies))
	}
	requireTypesChecked(t, c, policies)
}

func requireTypesChecked(t *testing.T, c *cluster, policies manifests) {
	t.Helper()
	for _, object := range policies {
		eventually(t, "the types of "+object.GetName(), func(ctx context.Context) string {
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), &policy); err != nil {
				return err.Error()
			}
			if policy.Status.TypeChecking == nil || policy.Status.ObservedGeneration != policy.Generation {
				return "not checked yet"
			}
			for _, w := range policy.Status.TypeChecking.ExpressionWarnings {
				if policy.Spec.ParamKind != nil && strings.Contains(w.Warning, "undeclared reference to 'params'") {
					// The controller manager checks a policy once. At that time, it may not have
					// the CRD of the policy's parameters, which is created together with the
					// policy.
					continue
				}
				t.Errorf("%s: %s: %s", policy.Name, w.FieldRef, w.Warning)
			}
			return ""
		})
	}
}

// as returns a client that impersonates a user.
func (c *cluster) as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := c.playground.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	out, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
