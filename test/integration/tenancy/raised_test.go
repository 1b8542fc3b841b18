package tenancy

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// raised tests a running gang with a preemptionPriorityClassName. The priority of that class counts
// up to the maximum of the queue. A preemptor with at most this priority must wait. After the field
// is removed, the scheduler must retry the preemptor.
func raised(w *world) {
	pg := raisedGroup("high")
	member := pod("r", "raised-0", "", "low", 8, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPodGroup] = pg.Name })
	w.add(pg)
	w.add(member)
	w.placed("r", member.Name)
	w.raise(pg, metav1.ConditionTrue, v1alpha1.ReasonLimitedByQueue)

	// The preemptor has the maximum priority of the queue.
	w.add(pod("r", "preemptor", "red", "mid", 8))
	w.Eventually("the preemptor has been tried", func(ctx context.Context) string {
		return w.toldOf(ctx, "r", "preemptor", "FailedScheduling")
	})
	w.stay("r", member.Name)
	w.patch(pg, `{"spec":{"preemptionPriorityClassName":null}}`)
	w.placed("r", "preemptor")
	w.Eventually("the gang tells its priority", func(ctx context.Context) string {
		var now v1alpha1.PodGroup
		if err := w.Objects.Get(ctx, client.ObjectKeyFromObject(pg), &now); err != nil {
			return err.Error()
		}
		if c := apimeta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionPreemptionPriority); c != nil {
			return fmt.Sprintf("it says %+v", c)
		}
		return ""
	})
}

// raisedGroup returns a PodGroup in the queue "red" with the priority class "low". class is its
// preemptionPriorityClassName.
func raisedGroup(class string) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "r", Name: "raised"}, Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: policy("red", "low")}}
	pg.Spec.PreemptionPriorityClassName = &class
	return pg
}

// raise waits until a PodGroup has a condition about its preemptionPriorityClassName with the
// status and the reason.
func (w *world) raise(pg *v1alpha1.PodGroup, status metav1.ConditionStatus, reason string) {
	w.Helper()
	w.Eventually("PodGroup "+pg.Name+" says "+reason, func(ctx context.Context) string {
		var now v1alpha1.PodGroup
		if err := w.Objects.Get(ctx, client.ObjectKeyFromObject(pg), &now); err != nil {
			return err.Error()
		}
		return saysOfRaise(&now, status, reason)
	})
}

func saysOfRaise(pg *v1alpha1.PodGroup, status metav1.ConditionStatus, reason string) string {
	c := apimeta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPreemptionPriority)
	if c == nil || c.Status != status || c.Reason != reason {
		return fmt.Sprintf("it says %+v", c)
	}
	return ""
}

// raisedClasses checks the condition about the preemptionPriorityClassName of a PodGroup in three
// steps. First the class is missing, then it exists. At last, the field names a class below the
// priority of the PodGroup.
func raisedClasses(w *world) {
	pg := raisedGroup("late-raise")
	w.add(pg)
	w.raise(pg, metav1.ConditionFalse, v1alpha1.ReasonPriorityClassNotFound)
	w.CreateClasses(map[string]int32{"late-raise": 50})
	w.raise(pg, metav1.ConditionTrue, v1alpha1.ReasonPreemptionPriorityCounts)
	w.CreateClasses(map[string]int32{"lowest": 1})
	w.patch(pg, `{"spec":{"preemptionPriorityClassName":"lowest"}}`)
	w.raise(pg, metav1.ConditionFalse, v1alpha1.ReasonBelowPriority)
}

// raisedJobs tests the annotation of a Job that sets preemptionPriorityClassName. Changes of the
// annotation must take effect while the Job runs. The annotation must have no effect in a queue
// without a maximum.
func raisedJobs(w *world) {
	ask := func(namespace, name string) *batchv1.Job {
		j := job(map[string]string{v1alpha1.AnnotationGang: "true", v1alpha1.AnnotationPreemptionPriorityClass: "mid"})
		j.Namespace, j.Name = namespace, name
		w.add(j)
		return j
	}
	raisedTo := func(class, reason string) func(*v1alpha1.PodGroup) string {
		return func(pg *v1alpha1.PodGroup) string {
			if got := ptr.Deref(pg.Spec.PreemptionPriorityClassName, ""); got != class {
				return fmt.Sprintf("its class is %q", got)
			}
			if reason == "" {
				return ""
			}
			return says(pg, reason)
		}
	}
	bounded := ask("rd", "raised-bounded")
	w.derivedGroup("rd", "raised-bounded", raisedTo("mid", v1alpha1.ReasonPreemptionPriorityCounts))
	w.placed("rd", w.podOf(bounded))
	for class, reason := range map[string]string{"high": v1alpha1.ReasonLimitedByQueue, "low": v1alpha1.ReasonPreemptionPriorityCounts} {
		w.patch(bounded, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationPreemptionPriorityClass, class))
		w.derivedGroup("rd", "raised-bounded", raisedTo(class, reason))
	}
	w.patch(bounded, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationPreemptionPriorityClass, "system-node-critical"))
	w.derivedGroup("rd", "raised-bounded", raisedTo("", v1alpha1.ReasonObjectNotFollowed))
	w.patch(bounded, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AnnotationPreemptionPriorityClass))
	w.derivedGroup("rd", "raised-bounded", raisedTo("", v1alpha1.ReasonObjectFollowed))

	ask("r", "raised-unbounded")
	w.derivedGroup("r", "raised-unbounded", raisedTo("mid", v1alpha1.ReasonNoMaximum))
}

// raisedAbove tests a preemptionPriorityClassName above the maximum of the queue. The admission
// policies must reject it for new and for existing PodGroups. They must permit other changes of an
// existing PodGroup.
func raisedAbove(w *world) {
	const above = `the preemptionPriorityClassName, is above 100, the highest that Queue "red" takes, or does not exist`
	refused := func(what string, err error, want string) {
		w.Helper()
		switch {
		case want == "" && err != nil:
			w.Errorf("%s: %v", what, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			w.Errorf("%s: got %v, want %q", what, err, want)
		}
	}
	refused("a group above", w.as.Create(w.Context(), raisedGroup("high"), client.DryRunAll), above)
	refused("a group of a class that does not exist", w.as.Create(w.Context(), raisedGroup("none"), client.DryRunAll), above)
	refused("a group at the maximum", w.as.Create(w.Context(), raisedGroup("mid"), client.DryRunAll), "")
	refused("a class of the system", w.as.Create(w.Context(), raisedGroup("system-node-critical"), client.DryRunAll), "classes whose names begin with system- are for work of the system")
	template := workload("r", "raised", "red", "low")
	template.Spec.PodGroupTemplates[0].PreemptionPriorityClassName = ptr.To("high")
	refused("a template above", w.as.Create(w.Context(), template, client.DryRunAll), `the preemptionPriorityClassName of a template is above 100`)

	pg := raisedGroup("")
	pg.Spec.PreemptionPriorityClassName = nil
	w.add(pg)
	change := func(text string) error {
		return w.as.Patch(w.Context(), pg.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	refused("raised above", change(`{"spec":{"preemptionPriorityClassName":"high"}}`), above)
	refused("raised to the maximum", change(`{"spec":{"preemptionPriorityClassName":"mid"}}`), "")
	refused("something else", change(`{"metadata":{"labels":{"a":"b"}}}`), "")
}
