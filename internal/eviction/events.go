package eviction

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// preemptionEvents are the events on both sides of a preemption.
type preemptionEvents struct {
	recorder events.EventRecorder
	// ofProfile is the recorder of a profile; nil where all use recorder.
	ofProfile func(profile string) events.EventRecorder
	// groups know which API a PodGroup is of; nil where there is only one.
	groups gang.Source
}

// by are the events of an execution for a preemptor that belongs to a profile.
func (e *preemptionEvents) by(profile string) *preemptionEvents {
	if e.ofProfile == nil || profile == "" {
		return e
	}
	return &preemptionEvents{recorder: e.ofProfile(profile), groups: e.groups}
}

// longestNote is what the API takes as an event's note.
const longestNote = 1024

// noteOf is a text, cut down to what the API takes.
func noteOf(text string) string {
	if len(text) <= longestNote {
		return text
	}
	return strings.ToValidUTF8(text[:longestNote-4], "") + " ..."
}

// podReference refers to a pod in events.
func podReference(namespace, name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
	}
}

// victimPod says of a pod that it goes.
func (e *preemptionEvents) victimPod(namespace, name string, uid types.UID, by v1alpha1.DisruptionPreemptor, message string) {
	e.recorder.Eventf(podReference(namespace, name, uid), e.reference(by), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", message)
}

// refused says of a member that it stays although others of its group have gone, for its deletion is refused.
func (e *preemptionEvents) refused(namespace, name string, uid types.UID, by v1alpha1.DisruptionPreemptor, err error) {
	e.recorder.Eventf(podReference(namespace, name, uid), e.reference(by), corev1.EventTypeWarning, "DeletionRefused", "Preempting",
		"%s", noteOf("it stays, though its PodGroup was to go as a whole: "+err.Error()))
}

// victimGroup says of a group that it goes.
func (e *preemptionEvents) victimGroup(v *core.Victim, by v1alpha1.DisruptionPreemptor, message string) {
	e.recorder.Eventf(e.victim(v), e.reference(by), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", message)
}

// success says of a preemptor which victims it took. Events that differ in nothing but their text are counted as one, with the text of the
// first; so it is about the first victim too.
func (e *preemptionEvents) success(d *core.Decision) {
	var related runtime.Object
	if len(d.Victims) > 0 {
		related = e.victim(&d.Victims[0])
	}
	e.recorder.Eventf(e.reference(preemptorOf(d)), related, corev1.EventTypeNormal, "Preempting", "Preempting",
		"%s", noteOf(d.Taking()))
}

// failure says of a preemptor what went wrong. The API's reason stands for the action as well, so that another error is another event.
func (e *preemptionEvents) failure(d *core.Decision, err error) {
	action := string(apierrors.ReasonForError(err))
	if action == "" {
		action = "Preempting"
	}
	e.recorder.Eventf(e.reference(preemptorOf(d)), nil, corev1.EventTypeWarning, "PreemptionFailed", action,
		"%s", noteOf("room could not be made: "+err.Error()))
}

// victim refers to a victim in events.
func (e *preemptionEvents) victim(v *core.Victim) runtime.Object {
	kind := v1alpha1.PreemptorPod
	if v.Group {
		kind = v1alpha1.PreemptorPodGroup
	}
	return e.reference(v1alpha1.DisruptionPreemptor{Kind: kind, Namespace: v.Namespace, Name: v.Name, UID: types.UID(v.UID)})
}

// reference refers to an object in events.
func (e *preemptionEvents) reference(p v1alpha1.DisruptionPreemptor) runtime.Object {
	object := metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	if p.Kind == v1alpha1.PreemptorPodGroup {
		version := v1alpha1.SchemeGroupVersion.String()
		if e.groups != nil {
			g, ok := e.groups.Group(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
			if ok && g.UID == p.UID && g.APIVersion != "" {
				version = g.APIVersion
			}
		}
		return &v1alpha1.PodGroup{
			TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "PodGroup"},
			ObjectMeta: object,
		}
	}
	return podReference(p.Namespace, p.Name, p.UID)
}
