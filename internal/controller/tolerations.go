package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// reasonMalformedToleration is the reason of the events on PriorityClasses whose toleration cannot be read.
const reasonMalformedToleration = "MalformedPreemptionToleration"

// Tolerations tells of PriorityClasses whose preemption toleration is malformed, once for each change. Such a
// class has no toleration until it is mended.
type Tolerations struct {
	classes  schedulinglisters.PriorityClassLister
	recorder events.EventRecorder
	count    func(malformed int)
	// told has what was malformed last, by class.
	told map[string]string
}

var _ reconcile.Reconciler = (*Tolerations)(nil)

// NewTolerations returns a Tolerations that reports with recorder, and with count how many classes are malformed
// whenever that changes. It must be run with one worker: it keeps what it has told.
func NewTolerations(classes schedulinglisters.PriorityClassLister, recorder events.EventRecorder, count func(int)) *Tolerations {
	return &Tolerations{classes: classes, recorder: recorder, count: count, told: make(map[string]string)}
}

// Reconcile looks at one PriorityClass.
func (r *Tolerations) Reconcile(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	before := maps.Clone(r.told)
	class, err := r.classes.Get(req.Name)
	switch {
	case apierrors.IsNotFound(err):
		delete(r.told, req.Name)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get PriorityClass %s: %w", req.Name, err)
	default:
		_, err := preemptiontoleration.FromPriorityClass(class)
		var malformed *preemptiontoleration.MalformedError
		if !errors.As(err, &malformed) {
			delete(r.told, req.Name)
			break
		}
		if r.told[req.Name] != malformed.Error() {
			r.told[req.Name] = malformed.Error()
			r.recorder.Eventf(class, nil, corev1.EventTypeWarning, reasonMalformedToleration, "Reading",
				"%v; the class has no preemption toleration", malformed)
		}
	}
	if len(before) != len(r.told) {
		r.count(len(r.told))
	}
	return reconcile.Result{}, nil
}

func newTolerationController(in Inputs) (controller.Controller, error) {
	classes := in.Informers.Scheduling().V1().PriorityClasses()
	return newResolveController("priorityclass-toleration",
		NewTolerations(classes.Lister(), in.Recorder, in.MalformedTolerations),
		&source.Informer{Informer: classes.Informer(), Handler: &handler.EnqueueRequestForObject{}},
	)
}
