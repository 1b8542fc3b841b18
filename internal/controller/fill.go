package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Filler computes the fields that users leave empty in PodGroups and in the templates of Workloads.
// It changes objects in memory and writes nothing to the API. It is safe for concurrent use.
type Filler struct {
	reader     client.Reader
	priorities priorities
}

// NewFiller returns a Filler that finds Workloads with reader, and PriorityClasses in classes.
func NewFiller(reader client.Reader, classes schedulinglisters.PriorityClassLister) *Filler {
	return &Filler{reader: reader, priorities: priorities{classes}}
}

// FillTemplate fills in the priority of a Workload's template. It returns false if the
// PriorityClass of the template does not exist.
func (f *Filler) FillTemplate(t *v1alpha1.PodGroupTemplate) (bool, error) {
	return f.priorities.fill(&t.PodGroupPolicy)
}

// PriorityOf returns the priority and the preemption policy that a PriorityClass gives. class is ""
// for a pod or group that names no class. found is false if the class does not exist.
func (f *Filler) PriorityOf(class string) (priority int32, policy corev1.PreemptionPolicy, found bool, err error) {
	r, err := f.priorities.of(class)
	if err != nil || r == nil {
		return 0, "", false, err
	}
	return r.priority, r.policy, true, nil
}

// Fill fills in the empty fields of a PodGroup in memory. If some fields stay empty, the verdict is
// the reason; otherwise it is zero.
func (f *Filler) Fill(ctx context.Context, pg *v1alpha1.PodGroup) (gang.Verdict, error) {
	policy := &pg.Spec.PodGroupPolicy
	if ref := pg.Spec.PodGroupTemplateRef; ref != nil && (policy.SchedulingPolicy == nil || policy.Priority == nil) {
		template, lacks, err := f.template(ctx, pg, ref)
		if template == nil {
			return lacks, err
		}
		if lacks := clash(pg, template); lacks != (gang.Verdict{}) {
			return lacks, nil
		}
		if !takeOver(policy, template.PodGroupPolicy.DeepCopy()) {
			return f.waitForTemplate(pg)
		}
	}
	found, err := f.priorities.fill(policy)
	if err != nil || found {
		return gang.Verdict{}, err
	}
	return noSuchClass(pg), nil
}

// template returns the template that a group refers to. If it does not exist, template returns nil
// and a verdict with the reason.
func (f *Filler) template(ctx context.Context, pg *v1alpha1.PodGroup, ref *v1alpha1.PodGroupTemplateReference) (*v1alpha1.PodGroupTemplate, gang.Verdict, error) {
	missing := gang.Verdict{Reason: v1alpha1.ReasonTemplateNotFound}
	var w v1alpha1.Workload
	err := f.reader.Get(ctx, client.ObjectKey{Namespace: pg.Namespace, Name: ref.WorkloadName}, &w)
	if apierrors.IsNotFound(err) {
		missing.Message = fmt.Sprintf("PodGroup %s/%s waits for the template %s of Workload %s, which does not exist",
			pg.Namespace, pg.Name, ref.PodGroupTemplateName, ref.WorkloadName)
		return nil, missing, nil
	}
	if err != nil {
		return nil, gang.Verdict{}, fmt.Errorf("get Workload %s: %w", ref.WorkloadName, err)
	}
	for i := range w.Spec.PodGroupTemplates {
		if t := &w.Spec.PodGroupTemplates[i]; t.Name == ref.PodGroupTemplateName {
			return t, gang.Verdict{}, nil
		}
	}
	missing.Message = fmt.Sprintf("PodGroup %s/%s names the template %s of Workload %s, which has no template of that name",
		pg.Namespace, pg.Name, ref.PodGroupTemplateName, ref.WorkloadName)
	return nil, missing, nil
}

// waitForTemplate returns the verdict on a group whose template has no priority yet.
func (f *Filler) waitForTemplate(pg *v1alpha1.PodGroup) (gang.Verdict, error) {
	found, err := f.priorities.of(ptr.Deref(pg.Spec.PriorityClassName, ""))
	switch {
	case err != nil:
		return gang.Verdict{}, err
	case found == nil:
		return noSuchClass(pg), nil
	}
	ref := pg.Spec.PodGroupTemplateRef
	return gang.Verdict{
		Reason: v1alpha1.ReasonPending,
		Message: fmt.Sprintf("PodGroup %s/%s waits for the priority of template %s of Workload %s to be filled in",
			pg.Namespace, pg.Name, ref.PodGroupTemplateName, ref.WorkloadName),
	}, nil
}
