package pauses

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Pauses follows preemptors that were not bound after their victims were evicted, or that crashed.
// Such a preemptor must not preempt for some time. Use [New] to create a value. It is safe for
// concurrent use.
type Pauses struct {
	index    *cluster.Index
	engine   *engine.Engine
	gangs    *engine.Gangs
	waits    *engine.Waits
	unbound  *engine.Unbound
	clock    clock.PassiveClock
	metrics  *metrics.Metrics
	plugin   string
	retries  Retrier
	releases Releaser
}

// Retrier retries workloads whose pause has ended.
type Retrier interface {
	// Retry retries a workload at once.
	Retry(key workload.Key)
}

// Releaser releases the reservations of workloads that must not preempt.
type Releaser interface {
	// All releases all reservations of a workload, and logs why.
	All(key workload.Key, why string)
}

// New returns the Pauses of the workloads in an engine. plugin names the scheduler's own plugin. A
// pod that this plugin returns to the queue at Permit has not failed.
func New(
	index *cluster.Index, e *engine.Engine, clk clock.PassiveClock, m *metrics.Metrics, plugin string, retries Retrier, releases Releaser,
) *Pauses {
	return &Pauses{
		index: index, engine: e, gangs: e.Gangs, waits: e.Waits, unbound: e.Unbound, clock: clk, metrics: m, plugin: plugin,
		retries: retries, releases: releases,
	}
}

// Of returns the pause of a workload that must not preempt yet; nil for none. A pod of a controller
// has the pause of an earlier, deleted pod of that controller.
func (ps *Pauses) Of(key workload.Key, pods ...*corev1.Pod) *engine.PreemptionPause {
	now := ps.clock.Now()
	if !key.Gang && len(pods) == 1 {
		ps.unbound.Inherits(key, ControllerOf(pods[0]), now)
		ps.engine.Crashes.Inherits(key, ControllerOf(pods[0]), now)
	}
	p, paused := ps.engine.Pause(key, now)
	if !paused {
		return nil
	}
	return &p
}

// ControllerOf returns a text that identifies the controller of a pod; "" for a pod without a
// controller. If the pod names the revision of the controller's template, the text contains it.
func ControllerOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	return string(owner.UID) + "/" + pod.Labels["controller-revision-hash"]
}

// Sentence returns a sentence that says why and until when a workload must not preempt.
func Sentence(p *engine.PreemptionPause, key workload.Key) string {
	if p.Crashes > 0 {
		return crashSentence(p, key)
	}
	return fmt.Sprintf("%s; the last one failed at %s: %s", pauseSentence(p, key), p.Last.Stage, p.Last.Message)
}

// pauseSentence returns a sentence that says until when a workload must not preempt, and why.
func pauseSentence(p *engine.PreemptionPause, key workload.Key) string {
	what, n := "pod", "1 preemption"
	if key.Gang {
		what = "gang"
	}
	if p.Preemptions > 1 {
		n = fmt.Sprintf("%d preemptions", p.Preemptions)
	}
	return fmt.Sprintf("%s for this %s did not end in a binding, so it preempts nothing before %s", n, what, p.Until.UTC().Format(time.RFC3339))
}

// PreemptionEnded records that a preemption has ended. A preemption without any eviction does not
// count.
func (ps *Pauses) PreemptionEnded(key workload.Key, outcome *eviction.Outcome) {
	if outcome.Err != nil && outcome.Begun.Len() == 0 {
		ps.unbound.Cancels(key)
		ps.engine.Crashes.Cancels(key)
	}
}

// FailedAfterDecision handles a pod that failed after its decision, for example in Bind. If pods
// were preempted for the workload, it must not preempt for some time, and its reservations are
// released. A pod that this scheduler returned to the queue has not failed.
//
// status is the framework's status. The result is the status with a sentence about these
// consequences.
func (ps *Pauses) FailedAfterDecision(profile framework.Framework, pod *corev1.Pod, attempt *engine.Attempt, status *fwk.Status) *fwk.Status {
	key := attempt.As
	args := ps.index.Profiles.Of(pod.Spec.SchedulerName)
	if !attempt.Failed || attempt.Canceled || args == nil || !ps.index.AwaitsPlace(pod) {
		return status
	}
	f, failed := failureOf(ps.plugin, profile, status)
	if !failed {
		return status
	}
	backing := engine.Backing{Initial: args.Retry.InitialBindingBackoff.Duration, Max: args.Retry.MaxBindingBackoff.Duration}
	if n := ps.unbound.Fails(key, f, ps.stateOf(key), backing, ps.clock.Now()); n > 0 {
		ps.metrics.Unbound(typeOf(key), n, pod.Spec.SchedulerName)
		logging.Happened(logging.Of(context.Background(), key), "A preemption did not end in a binding", f.Message, "stage", f.Stage)
	}
	p, paused := ps.unbound.Pause(key, ps.clock.Now())
	if !paused {
		return status
	}
	const why = "it could not be bound after a preemption"
	ps.releases.All(key, why)
	said := pauseSentence(&p, key) + "; the step that failed is " + p.Last.Stage
	if key.Gang {
		ps.gangs.SetVerdict(key, gang.Verdict{
			Reason: v1alpha1.ReasonPending, Message: fmt.Sprintf("member %s could not be bound: %s; %s", pod.Name, p.Last.Message, said),
		})
	}
	return withSentence(status, said)
}

// EndUnbound ends the record of a gang's preemptions if enough members are bound.
func (ps *Pauses) EndUnbound(key types.NamespacedName) {
	if !ps.unbound.Has(gang.KeyOf(key)) {
		return
	}
	if g, ok := ps.index.Groups.Group(key); ok {
		if members := ps.index.Lister.Members(key); gang.IsPlaced(g, ps.index.Derived, &members) {
			ps.unbound.Ends(gang.KeyOf(key))
		}
	}
}

// ChangedByOwner ends the pause of a workload early if the owner has changed its pod, because the
// binding may now succeed. It ignores changes of the status, which the scheduler writes itself.
func (ps *Pauses) ChangedByOwner(before, after *corev1.Pod) {
	if after.Spec.NodeName != "" || before.Spec.NodeName != "" {
		return
	}
	key := ps.index.KeyOf(after)
	if !ps.unbound.Has(key) && !ps.engine.Crashes.Has(key) {
		return
	}
	if apiequality.Semantic.DeepEqual(before.Labels, after.Labels) && apiequality.Semantic.DeepEqual(before.Annotations, after.Annotations) &&
		apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return
	}
	ps.endEarly(key, "")
}

// GroupChangedByOwner is ChangedByOwner for a PodGroup. g is nil for a deleted PodGroup.
func (ps *Pauses) GroupChangedByOwner(key types.NamespacedName, g *gang.Group) {
	if g == nil {
		ps.unbound.Ends(gang.KeyOf(key))
		ps.engine.Crashes.Ends(gang.KeyOf(key))
		return
	}
	if ps.unbound.Has(gang.KeyOf(key)) || ps.engine.Crashes.Has(gang.KeyOf(key)) {
		ps.endEarly(gang.KeyOf(key), stateOfGroup(g))
	}
}

func (ps *Pauses) endEarly(key workload.Key, of string) {
	now := ps.clock.Now()
	if !ps.engine.OwnerChanged(key, of, now) {
		return
	}
	if p, paused := ps.engine.Pause(key, now); paused {
		ps.waits.WaitUntil(key, engine.ProtectionEnds, p.Until)
		return
	}
	ps.retries.Retry(key)
}

// stateOf returns a text that identifies the state of a gang's PodGroup; see stateOfGroup. It
// returns "" for a single pod, because the handlers see each change of a pod.
func (ps *Pauses) stateOf(key workload.Key) string {
	if !key.Gang {
		return ""
	}
	g, ok := ps.index.Groups.Group(gang.NameOf(key))
	if !ok {
		return ""
	}
	return stateOfGroup(g)
}

// stateOfGroup returns a text that changes when the owner changes the PodGroup. It leaves out the
// status, which the scheduler writes.
func stateOfGroup(g *gang.Group) string {
	return fmt.Sprint(g.UID, g.MinCount, g.Whole, g.PriorityClassName, g.PreemptionPolicy, g.Queue, g.Labels)
}

func typeOf(key workload.Key) metrics.PreemptorType {
	if key.Gang {
		return metrics.Gang
	}
	return metrics.Pod
}

// ranPlugin matches the beginning of the framework's error about a failed plugin: the step and the
// plugin's name.
var ranPlugin = regexp.MustCompile(`^running (\w+)(?: plugin)? "([^"]*)": `)

// permitTimeout is the beginning of the framework's message about a pod whose time at Permit has
// run out.
const permitTimeout = "rejected due to timeout"

// failureOf returns the step that failed after the decision, from the status at the end of a cycle.
// own is the name of the scheduler's plugin. It returns false if that plugin returned the pod to
// the queue, because its gang was released or the pod was preempted.
func failureOf(own string, profile framework.Framework, status *fwk.Status) (engine.Failure, bool) {
	plugin, message := status.Plugin(), status.Message()
	var fit *framework.FitError
	steps := []string{"PreBind", "Bind"}
	if errors.As(status.AsError(), &fit) {
		steps = []string{"Reserve", "Permit"}
		for name := range fit.Diagnosis.UnschedulablePlugins {
			plugin = name
		}
		fit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(_ string, s *fwk.Status) { message = s.Message() })
	}
	timeout := strings.HasPrefix(message, permitTimeout)
	if plugin == own && !timeout {
		return engine.Failure{}, false
	}
	if found := ranPlugin.FindStringSubmatch(message); found != nil {
		return engine.Failure{Stage: fmt.Sprintf("%s plugin %s", found[1], found[2]), Message: shortened(message[len(found[0]):])}, true
	}
	stage := "Bind"
	switch {
	case timeout:
		stage = "Permit"
	case plugin != "" && profile != nil:
		stage = strings.Join(stagesOf(profile.ListPlugins(), plugin, steps), " or ")
	}
	if plugin != "" {
		stage += " plugin " + plugin
	}
	return engine.Failure{Stage: stage, Message: shortened(message)}, true
}

// stagesOf returns the given steps that run the named plugin in the profile.
func stagesOf(plugins *config.Plugins, name string, steps []string) []string {
	var out []string
	for _, point := range [...]struct {
		stage string
		set   *config.PluginSet
	}{{"Reserve", &plugins.Reserve}, {"Permit", &plugins.Permit}, {"PreBind", &plugins.PreBind}, {"Bind", &plugins.Bind}} {
		if slices.Contains(steps, point.stage) && slices.ContainsFunc(point.set.Enabled, func(p config.Plugin) bool { return p.Name == name }) {
			out = append(out, point.stage)
		}
	}
	return out
}

// shortened cuts an error message to a length that fits into other messages.
func shortened(message string) string {
	const most = 300
	runes := []rune(message)
	if len(runes) <= most {
		return message
	}
	return string(runes[:most]) + "…"
}

// withSentence returns a status with a sentence added to its message. It keeps the errors that the
// framework reads from the status.
func withSentence(status *fwk.Status, sentence string) *fwk.Status {
	err := status.AsError()
	var fit *framework.FitError
	if errors.As(err, &fit) {
		said := *fit
		said.Diagnosis.PostFilterMsg = strings.TrimPrefix(said.Diagnosis.PostFilterMsg+"; "+sentence, "; ")
		return fwk.NewStatus(status.Code()).WithError(&said).WithPlugin(status.Plugin())
	}
	if status.IsRejected() {
		return fwk.NewStatus(status.Code(), status.Message(), sentence).WithPlugin(status.Plugin())
	}
	return fwk.AsStatus(fmt.Errorf("%w; %s", err, sentence)).WithPlugin(status.Plugin())
}

// BackOff returns how long a preemptor must back off after an eviction. The first failure has no
// backoff. Each further failure in a row doubles it, for example if permissions are missing. An
// order that is no longer wanted counts as no failure.
func (ps *Pauses) BackOff(key workload.Key, outcome eviction.Outcome, retry configv1alpha1.RetryArgs) time.Duration {
	switch {
	case outcome.Err == nil:
		ps.waits.Succeeded(key)
		return 0
	case outcome.Unwanted:
		return 0
	}
	if outcome.Refused {
		// The next decision avoids the pod whose deletion was rejected, so a short backoff
		// suffices.
		return retry.InitialBackoff.Duration
	}
	return ps.waits.Failed(key, engine.Backing{Initial: retry.InitialBackoff.Duration, Max: retry.MaxBackoff.Duration})
}
