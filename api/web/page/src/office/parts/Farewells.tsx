// The acts after which a member is no more: its merge into another one, and its erasure.

import { act, askFirst } from '../acts';
import { EraseMemberDocument, MergeMembersDocument } from '../generated';
import { handed } from './Receipt';
import { address, go } from '../routes';
import { tell } from '../words';
import { Choice, type Filled, Form, Text } from './Form';

export function Merge({ member, again }: { member: string; again: () => void }) {
  const merge = (filled: Filled) => {
    const target = filled.text('target');
    askFirst({
      title: tell('merge.of', { member, target }),
      text: tell('merge.why', { member, target }),
      typed: member,
      verb: tell('merge'),
      run: async () => {
        const { merged } = await act(MergeMembersDocument, { source: member, target }, data => data.mergeMembers);
        again();
        return tell(merged ? 'merge.done' : 'merge.goes.on', { member, target });
      },
    });
  };
  return (
    <section class="card">
      <h2>{tell('merge.title')}</h2>
      <Form verb={tell('merge')} act={merge} strong={false}>
        <Text name="target" label={tell('merge.target')} hint={tell('merge.target.hint')} required maxLength={128} />
      </Form>
    </section>
  );
}

export function Erase({ member }: { member: string }) {
  const erase = (filled: Filled) => {
    const mode = filled.text('mode') as 'DELETE' | 'ANONYMIZE';
    askFirst({
      title: tell('erase.of', { member }),
      text: tell(mode === 'DELETE' ? 'erase.delete.why' : 'erase.anonymize.why'),
      typed: member,
      verb: tell('erase'),
      run: async () => {
        const { erased, waitsForFiles, receipt } = await act(EraseMemberDocument, { member, mode }, data => data.eraseMember);
        handed.value = receipt;
        go(address('erasures'));
        return tell(erased ? 'erase.done' : waitsForFiles ? 'erase.waits' : 'erase.goes.on');
      },
    });
  };
  return (
    <section class="card">
      <h2>{tell('erase.title')}</h2>
      <Form verb={tell('erase')} act={erase} strong={false}>
        <Choice name="mode" label={tell('erase.mode')} options={[['DELETE', tell('erase.delete')], ['ANONYMIZE', tell('erase.anonymize')]]} />
      </Form>
    </section>
  );
}
