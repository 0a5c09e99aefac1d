// The bans of a member: each can be lifted, and another one made.

import { act, askFirst, told, troubleText } from '../acts';
import { BanMemberDocument, LiftBanDocument, type MemberQuery } from '../generated';
import { tell } from '../words';
import { OnBoard, When } from './Facts';
import { Check, type Filled, Form, Text } from './Form';

type Ban = NonNullable<NonNullable<MemberQuery['member']>['bans']>[number];

export function Bans({ member, bans, again }: { member: string; bans: readonly Ban[]; again: () => void }) {
  const ban = (filled: Filled) => {
    const board = filled.some('ban from');
    const shadow = filled.is('shadow');
    askFirst({
      title: board ? tell('ban.of.board', { member, board }) : tell('ban.of.all', { member }),
      text: tell(shadow ? 'ban.shadow.why' : 'ban.why'),
      verb: tell('ban'),
      run: async () => {
        const { banned } = await act(BanMemberDocument, { input: { member, board, shadow, reason: filled.some('reason') } }, data => data.banMember);
        again();
        return tell(banned ? 'ban.done' : 'ban.goes.on', { member });
      },
    });
  };
  const lift = async (board: string | null) => {
    try {
      const { done } = await act(LiftBanDocument, { member, board }, data => data.liftBan);
      told.value = tell(done ? 'ban.lifted' : 'ban.lift.goes.on', { member });
    } catch (error) {
      told.value = troubleText(error);
    }
    again();
  };
  return (
    <section class="card" aria-labelledby="bans-title">
      <h2 id="bans-title">{tell('bans')}</h2>
      {bans.length ? (
        <ul class="rows-of-fields">
          {bans.map(({ board, shadow, reason, since }) => (
            <li key={board?.slug ?? ''}>
              <div>
                <p><OnBoard board={board} />{shadow && <span class="tag">{tell('ban.is.shadow')}</span>}</p>
                <p class="note"><When at={since} />{reason && <> · <bdi>{reason}</bdi></>}</p>
              </div>
              <button type="button" aria-label={tell('ban.lift.of', { board: board?.title ?? tell('boards.all') })} onClick={() => lift(board?.slug ?? null)}>{tell('ban.lift')}</button>
            </li>
          ))}
        </ul>
      ) : (
        <p class="note">{tell('bans.none')}</p>
      )}
      <Form verb={tell('ban')} act={ban} strong={false}>
        <div class="fields">
          <Text name="ban from" label={tell('ban.board')} hint={tell('ban.board.hint')} list="boards-of-member" />
          <Text name="reason" label={tell('ban.reason')} hint={tell('ban.reason.hint')} maxLength={200} />
        </div>
        <Check name="shadow" label={tell('ban.shadow')} />
      </Form>
    </section>
  );
}
