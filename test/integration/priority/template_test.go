package priority

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func testTemplates(e *env) {
	workers := gangOf(2, "patient")
	workers.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	e.Create(
		// Create these PodGroups before their Workload.
		e.made("all", "workers", v1alpha1.PodGroupPolicy{}),
		e.made("own-class", "workers", v1alpha1.PodGroupPolicy{PriorityClassName: ptr.To("low")}),
		e.workload(map[string]v1alpha1.PodGroupPolicy{"workers": workers}),
	)
	e.waitResolved("all", 100, corev1.PreemptNever)
	e.waitResolved("own-class", 10, corev1.PreemptLowerPriority)
	for _, name := range []string{"all", "own-class"} {
		pg := e.group(name, v1alpha1.PodGroupPolicy{})
		if err := e.Objects.Get(e.Context(), client.ObjectKeyFromObject(pg), pg); err != nil {
			e.Fatal(err)
		}
		if pg.Spec.SchedulingPolicy.Gang.MinCount != 2 || *pg.Spec.DisruptionMode != v1alpha1.DisruptionModePodGroup {
			e.Errorf("PodGroup %s has %+v", name, pg.Spec)
		}
	}
}

func testTemplateThatComesLate(e *env) {
	e.AddNodes(2, "late-template")
	e.Create(e.made("g", "workers", v1alpha1.PodGroupPolicy{}), e.pod("g-0", "g", "low", "late-template"), e.pod("g-1", "g", "low", "late-template"))
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonTemplateNotFound, "Workload w, which does not exist")
	e.WaitEvent("PodGroup/g", v1alpha1.ReasonTemplateNotFound, "Workload w, which does not exist")
	e.WaitEvent("Pod/g-0", "FailedScheduling", v1alpha1.ReasonTemplateNotFound, "Workload w, which does not exist")
	other := e.workload(map[string]v1alpha1.PodGroupPolicy{"others": gangOf(2, "low")})
	e.Create(other)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonTemplateNotFound, "Workload w, which has no template of that name")
	e.stayUnbound("g-0", "g-1")
	e.remove(other)
	e.Create(e.workload(map[string]v1alpha1.PodGroupPolicy{"workers": gangOf(2, "low")}))
	e.waitBound("g-0", "g-1")
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

func testTemplateThatClashes(e *env) {
	e.AddNodes(1, "clash")
	e.Create(
		e.workload(map[string]v1alpha1.PodGroupPolicy{"loose": basic("low")}),
		e.made("g", "loose", v1alpha1.PodGroupPolicy{DisruptionMode: ptr.To(v1alpha1.DisruptionModePodGroup)}),
		e.pod("g-0", "g", "low", "clash"),
	)
	phrases := []string{"disruptionMode PodGroup (its own)", "schedulingPolicy (that of template loose of Workload w) is basic"}
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate, phrases...)
	e.WaitEvent("PodGroup/g", v1alpha1.ReasonInvalidTemplate, phrases...)
	e.WaitEvent("Pod/g-0", "FailedScheduling", phrases...)
	e.stayUnbound("g-0")
}
